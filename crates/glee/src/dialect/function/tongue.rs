//! What the schemas of each provider can say. Glee checks every argument itself, so a schema that says
//! less is safe; one that says what a provider does not know breaks its whole request.

/// The part of JSON Schema that a provider understands.
pub(super) struct Tongue {
    /// Besides `type`, `description`, `enum`, `properties`, `required`, `items` and unions.
    pub(super) keywords: &'static [&'static str],
    pub(super) formats: &'static [&'static str],
    /// Every object says that it has no other properties.
    pub(super) closed: bool,
    /// Every property is required, and null where it would be left out.
    pub(super) all_required: bool,
    pub(super) unions: bool,
    /// `null` is a type like others; otherwise a keyword says that it is one of the values.
    pub(super) null_is_a_type: bool,
    /// Only texts can be listed.
    pub(super) lists_texts: bool,
    pub(super) types_in_capitals: bool,
    /// These are numbers of 64 bits, which are texts in JSON.
    pub(super) counts_in_text: &'static [&'static str],
    /// Properties are called by ASCII letters, digits, `_`, `.` and `-`.
    pub(super) plain_names: bool,
}

pub(super) const OPENAI: Tongue = Tongue {
    keywords: &[
        "pattern",
        "format",
        "multipleOf",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "minItems",
        "maxItems",
    ],
    formats: &[
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uuid",
    ],
    closed: true,
    all_required: true,
    unions: true,
    null_is_a_type: true,
    lists_texts: false,
    types_in_capitals: false,
    counts_in_text: &[],
    plain_names: false,
};

pub(super) const ANTHROPIC: Tongue = Tongue {
    keywords: &["format", "default"],
    formats: &[
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "uri",
        "ipv4",
        "ipv6",
        "uuid",
    ],
    closed: true,
    all_required: false,
    unions: true,
    null_is_a_type: true,
    lists_texts: false,
    types_in_capitals: false,
    counts_in_text: &[],
    plain_names: true,
};

pub(super) const GEMINI: Tongue = Tongue {
    keywords: &[
        "title",
        "format",
        "default",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "pattern",
        "minimum",
        "maximum",
        "minProperties",
        "maxProperties",
    ],
    formats: &["date-time", "float", "double", "int32", "int64"],
    closed: false,
    all_required: false,
    unions: false,
    null_is_a_type: false,
    lists_texts: true,
    types_in_capitals: true,
    counts_in_text: &[
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "minProperties",
        "maxProperties",
    ],
    plain_names: true,
};

/// Names that every provider takes for a property.
pub(super) fn is_plain(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}
