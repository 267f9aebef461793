//! Conditions on the arguments of a call, as rules and manifests write them.

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::custom::Flaw;
use crate::glob;
use crate::json;
use crate::template::as_text;

/// What one argument must be; all that is given must hold.
#[derive(Clone, Debug, Default)]
pub struct ArgumentTest {
    pub equals: Option<Value>,
    pub one_of: Option<Vec<Value>>,
    pub glob: Option<String>,
    pub regex: Option<String>,
    pub more_than: Option<f64>,
    pub less_than: Option<f64>,
    pub exists: Option<bool>,
}

/// Tests of arguments, by name (`a.b` for one inside another), that can be used. All must hold.
#[derive(Clone, Debug, Default)]
pub struct Condition(Vec<Argument>);

#[derive(Clone, Debug)]
struct Argument {
    name: String,
    test: ArgumentTest,
    regex: Option<Regex>,
}

/// Of the values that a name can mean, and of the elements of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Enough {
    One,
    All,
}

impl Enough {
    fn of(self, each: impl Iterator<Item = Result<bool, String>>) -> Result<bool, String> {
        let all = each.collect::<Result<Vec<bool>, String>>()?;
        Ok(match self {
            Enough::One => all.contains(&true),
            Enough::All => !all.is_empty() && !all.contains(&false),
        })
    }
}

/// Largest compiled expression, in bytes.
const MAX_REGEX: usize = 1 << 20;

impl Condition {
    /// Otherwise everything that is wrong with it; the places are from the map of tests.
    pub fn new(
        tests: impl IntoIterator<Item = (String, ArgumentTest)>,
    ) -> Result<Condition, Vec<Flaw>> {
        let (mut arguments, mut flaws) = (Vec::new(), Vec::new());
        for (name, test) in tests {
            let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            match Argument::new(name, test) {
                Ok(argument) => arguments.push(argument),
                Err((key, message)) => flaws.push(Flaw {
                    pointer: pointer + key,
                    message,
                }),
            }
        }
        match flaws.is_empty() {
            true => Ok(Condition(arguments)),
            false => Err(flaws),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|it| it.name.as_str())
    }

    /// Those that a call must have.
    pub fn needed(&self) -> impl Iterator<Item = &str> {
        let needed = self.0.iter().filter(|it| it.test.exists != Some(false));
        needed.map(|it| it.name.as_str())
    }

    /// Whether some of what the arguments say is so: enough to object to a call. An `Err` says why it
    /// cannot be told.
    pub fn holds(&self, args: &Map<String, Value>) -> Result<bool, String> {
        self.holds_for(args, Enough::One)
    }

    /// Whether all of it is so, which it takes to say yes.
    pub fn holds_wholly(&self, args: &Map<String, Value>) -> Result<bool, String> {
        self.holds_for(args, Enough::All)
    }

    fn holds_for(&self, args: &Map<String, Value>, enough: Enough) -> Result<bool, String> {
        let mut holds = true;
        // One that cannot be told is not hidden by another that does not hold.
        for argument in &self.0 {
            holds &= argument.fits(args, enough)?;
        }
        Ok(holds)
    }
}

impl Argument {
    /// Otherwise the key that is wrong, and why.
    fn new(name: String, test: ArgumentTest) -> Result<Argument, (&'static str, String)> {
        let ArgumentTest {
            equals,
            one_of,
            glob,
            regex,
            more_than,
            less_than,
            exists,
        } = &test;
        let says_of_value = equals.is_some()
            || one_of.is_some()
            || glob.is_some()
            || regex.is_some()
            || more_than.is_some()
            || less_than.is_some();
        if !says_of_value && exists.is_none() {
            return Err((
                "",
                "say what it must be: `equals`, `one_of`, `glob`, `regex`, `more_than`, `less_than` or `exists`"
                    .to_owned(),
            ));
        }
        if says_of_value && *exists == Some(false) {
            let message = "the rule can never match: what is not there is nothing else".to_owned();
            return Err(("/exists", message));
        }
        if one_of.as_ref().is_some_and(Vec::is_empty) {
            let message = "the rule can never match: nothing is one of none".to_owned();
            return Err(("/one_of", message));
        }
        if glob.as_deref() == Some("") {
            return Err(("/glob", "an empty pattern says nothing".to_owned()));
        }
        let regex = match regex.as_deref() {
            None => None,
            Some("") => return Err(("/regex", "an empty expression says nothing".to_owned())),
            Some(regex) => match RegexBuilder::new(regex).size_limit(MAX_REGEX).build() {
                Ok(regex) => Some(regex),
                Err(err) => {
                    // The error draws a picture; its last line says what is wrong.
                    let told = err.to_string();
                    let why = told.lines().last().unwrap_or_default();
                    return Err(("/regex", why.trim_start_matches("error: ").to_owned()));
                }
            },
        };
        let argument = Argument { name, test, regex };
        if let Some(value) = &argument.test.equals
            && argument.is_so(value) != Ok(true)
        {
            let message =
                "the rule can never match: what it `equals` does not fit the rest".to_owned();
            return Err(("/equals", message));
        }
        let some_fits =
            |values: &Vec<Value>| values.iter().any(|it| argument.is_so(it) == Ok(true));
        if !argument.test.one_of.as_ref().is_none_or(some_fits) {
            let message = "the rule can never match: nothing in `one_of` fits the rest".to_owned();
            return Err(("/one_of", message));
        }
        if let (Some(more), Some(less)) = (argument.test.more_than, argument.test.less_than)
            && more >= less
        {
            let message = format!(
                "the rule can never match: nothing is more than {more} and less than {less}"
            );
            return Err(("/less_than", message));
        }
        Ok(argument)
    }

    fn fits(&self, args: &Map<String, Value>, enough: Enough) -> Result<bool, String> {
        // `a.b` may be the name of an argument, and one inside another; a call may have both.
        let mut names = self.name.split('.');
        let first = names.next().and_then(|it| args.get(it));
        let inside = names.try_fold(first, |value, name| Some(value?.get(name)));
        let inside = inside.flatten().filter(|_| self.name.contains('.'));
        let values: Vec<&Value> = args.get(&self.name).into_iter().chain(inside).collect();
        match (values.is_empty(), self.test.exists) {
            (true, exists) => Ok(exists == Some(false)),
            (false, Some(false)) => Ok(false),
            (false, _) => enough.of(values.into_iter().map(|it| self.is_so_of(it, enough))),
        }
    }

    /// Of a list, the elements are looked at, unless it is the list itself that is spoken of.
    fn is_so_of(&self, value: &Value, enough: Enough) -> Result<bool, String> {
        let whole = self.test.equals.is_some() || self.test.one_of.is_some();
        match value {
            Value::Array(items) if !whole => {
                let is_there = self.test.exists == Some(true) && items.is_empty();
                let each = enough.of(items.iter().map(|it| self.is_so(it)))?;
                Ok(is_there || each)
            }
            value => self.is_so(value),
        }
    }

    fn is_so(&self, value: &Value) -> Result<bool, String> {
        let test = &self.test;
        let text = as_text(value.clone());
        let text_is = |fits: &dyn Fn(&str) -> bool| text.as_deref().is_some_and(fits);
        let compared = |holds: &dyn Fn(f64) -> bool| match value.as_f64() {
            Some(number) => Ok(holds(number)),
            None => Err(format!("`{}` is not a number", self.name)),
        };
        let same = |it: &Value| json::same(it, value);
        Ok(test.equals.as_ref().is_none_or(same)
            && test.one_of.as_ref().is_none_or(|it| it.iter().any(same))
            && test
                .glob
                .as_ref()
                .is_none_or(|it| text_is(&|text| glob::matches(it, text)))
            && self
                .regex
                .as_ref()
                .is_none_or(|it| text_is(&|text| it.is_match(text)))
            && test
                .more_than
                .map_or(Ok(true), |than| compared(&|it| it > than))?
            && test
                .less_than
                .map_or(Ok(true), |than| compared(&|it| it < than))?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(test: ArgumentTest, args: Value) -> Result<bool, String> {
        let tests = [("n".to_owned(), test)];
        let condition = Condition::new(tests).unwrap_or_else(|flaws| panic!("{flaws:?}"));
        condition.holds(args.as_object().unwrap_or(&Map::new()))
    }

    #[test]
    fn arguments_and_what_they_must_be() {
        let more = || ArgumentTest {
            more_than: Some(10.0),
            ..ArgumentTest::default()
        };
        assert_eq!(holds(more(), json!({"n": 11})), Ok(true));
        assert_eq!(holds(more(), json!({"n": 10})), Ok(false));
        assert_eq!(holds(more(), json!({})), Ok(false));
        assert_eq!(holds(more(), json!({"n": [1, 20]})), Ok(true));
        for odd in [
            json!({"n": "11"}),
            json!({"n": null}),
            json!({"n": [20, "x"]}),
        ] {
            assert!(holds(more(), odd.clone()).is_err(), "{odd}");
        }
        let there = |exists| ArgumentTest {
            exists: Some(exists),
            ..ArgumentTest::default()
        };
        assert_eq!(holds(there(true), json!({"n": null})), Ok(true));
        assert_eq!(holds(there(true), json!({"n": []})), Ok(true));
        assert_eq!(holds(there(true), json!({})), Ok(false));
        assert_eq!(holds(there(false), json!({})), Ok(true));
        assert_eq!(holds(there(false), json!({"n": 1})), Ok(false));
        let one_of = ArgumentTest {
            one_of: Some(vec![json!("a"), json!([1])]),
            ..ArgumentTest::default()
        };
        assert_eq!(holds(one_of.clone(), json!({"n": "a"})), Ok(true));
        assert_eq!(holds(one_of.clone(), json!({"n": [1]})), Ok(true));
        assert_eq!(holds(one_of, json!({"n": 1})), Ok(false));
    }

    #[test]
    fn what_can_never_be_is_a_flaw() {
        for test in [
            ArgumentTest::default(),
            ArgumentTest {
                one_of: Some(vec![]),
                ..ArgumentTest::default()
            },
            ArgumentTest {
                exists: Some(false),
                equals: Some(json!(1)),
                ..ArgumentTest::default()
            },
            ArgumentTest {
                equals: Some(json!(1)),
                more_than: Some(1.0),
                ..ArgumentTest::default()
            },
            ArgumentTest {
                one_of: Some(vec![json!("a"), json!("b")]),
                glob: Some("c*".to_owned()),
                ..ArgumentTest::default()
            },
            ArgumentTest {
                more_than: Some(5.0),
                less_than: Some(5.0),
                ..ArgumentTest::default()
            },
        ] {
            assert!(
                Condition::new([("n".to_owned(), test.clone())]).is_err(),
                "{test:?}"
            );
        }
    }

    #[test]
    fn a_number_is_itself_however_it_is_written() {
        let number = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        for written in ["9", "9.0", "90e-1"] {
            let equals = ArgumentTest {
                equals: Some(json!(9)),
                ..ArgumentTest::default()
            };
            let one_of = ArgumentTest {
                one_of: Some(vec![json!(8), json!(9)]),
                ..ArgumentTest::default()
            };
            for test in [equals, one_of] {
                let args = json!({"n": number(written)});
                assert_eq!(holds(test, args), Ok(true), "{written}");
            }
        }
    }

    /// To object, one of them is enough; to say yes, it takes all.
    #[test]
    fn a_name_with_a_dot_has_two_readings_and_a_list_many() {
        let test = ArgumentTest {
            equals: Some(json!(true)),
            ..ArgumentTest::default()
        };
        let condition = Condition::new([("a.b".to_owned(), test)]).unwrap_or_default();
        let both = json!({"a": {"b": true}, "a.b": false});
        let both = both.as_object().cloned().unwrap_or_default();
        assert_eq!(condition.holds(&both), Ok(true));
        assert_eq!(condition.holds_wholly(&both), Ok(false));
        let glob = ArgumentTest {
            glob: Some("notes/*".to_owned()),
            ..ArgumentTest::default()
        };
        let condition = Condition::new([("n".to_owned(), glob)]).unwrap_or_default();
        let list = json!({"n": ["notes/a", "secrets/b"]});
        let list = list.as_object().cloned().unwrap_or_default();
        assert_eq!(condition.holds(&list), Ok(true));
        assert_eq!(condition.holds_wholly(&list), Ok(false));
    }
}
