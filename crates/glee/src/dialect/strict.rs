//! A value to deserialise from as the published schema would take it.
//!
//! Serde also takes a list for a struct, field by field in the order of declaration, which no author
//! means; and it takes no `1.0` for an integer, which in JSON it is.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

pub fn from_value<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    T::deserialize(Strict(value))
}

struct Strict(Value);

impl Strict {
    /// A number without a fraction, as the integer that it is.
    fn whole(self) -> Strict {
        let number = match &self.0 {
            Value::Number(it) if it.is_f64() => it.as_f64(),
            _ => None,
        };
        match number {
            Some(it) if it.fract() == 0.0 && it.abs() < 2_f64.powi(53) => {
                Strict((it as i64).into())
            }
            _ => self,
        }
    }
}

macro_rules! integers {
    ($($name:ident)*) => {$(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.whole().deserialize_any(visitor)
        }
    )*};
}

impl<'de> IntoDeserializer<'de, Error> for Strict {
    type Deserializer = Strict;

    fn into_deserializer(self) -> Strict {
        self
    }
}

impl<'de> Deserializer<'de> for Strict {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Object(map) => visitor.visit_map(MapDeserializer::new(
                map.into_iter().map(|(key, it)| (key, Strict(it))),
            )),
            Value::Array(items) => {
                visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(Strict)))
            }
            scalar => scalar.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::Object(_) => self.deserialize_any(visitor),
            _ => Err(Error::custom(format_args!("{name} must be a map"))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    forward_to_deserialize_any! {
        bool f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_number_without_a_fraction_is_an_integer() {
        assert_eq!(from_value::<u64>(json!(1.0)).unwrap(), 1);
        assert_eq!(from_value::<Option<i32>>(json!(-0.0)).unwrap(), Some(0));
        assert_eq!(from_value::<f64>(json!(1.0)).unwrap(), 1.0);
        assert!(from_value::<u64>(json!(1.5)).is_err());
        assert!(from_value::<u64>(json!(-1.0)).is_err());
        assert!(from_value::<u8>(json!(256.0)).is_err());
    }
}
