// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Languages of regular expressions, JSON Schemas, grammars and structural tags: `<unmask/c_language.h>`.
use std::ptr::{null, null_mut, NonNull};

use crate::{c_text, check, sys, Constraint, Result, Vocabulary};

/// Limits of a compilation: texts come from requests, and a short one may need millions of states.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Most states of any automaton on the way.
    pub states: u32,
    /// Most positions of a nondeterministic automaton, about 40 bytes each.
    pub positions: u32,
    /// Longest time.
    pub milliseconds: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { states: 262_144, positions: 8_000_000, milliseconds: 10_000 }
    }
}

/// How a regular expression is read, and how its strings are written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Expressions {
    pub limits: Limits,
    /// Any text that has a match in it; otherwise the whole text is the match.
    pub search: bool,
    /// Refuse what is an error with flag u although it has one meaning.
    pub strict: bool,
    /// The strings as JSON strings, with their quotes.
    pub json_string: bool,
    /// With `json_string`: control characters without a short escape, in four hexadecimal digits.
    pub unicode_escapes: bool,
}

/// How a grammar is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grammars<'a> {
    pub limits: Limits,
    /// The rule that whole texts obey; `None`: `root`.
    pub root: Option<&'a str>,
    /// How often a rule is entered in itself.
    pub recursion: u32,
}

impl Default for Grammars<'_> {
    fn default() -> Self {
        Grammars { limits: Limits::default(), root: None, recursion: 3 }
    }
}

/// How a JSON Schema, or a structural tag with schemas in it, is read, and how its values are
/// written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Schemas<'a> {
    pub limits: Limits,
    /// An expression for the space between elements; `None`: one optional blank.
    pub whitespace: Option<&'a str>,
    /// Levels of a value that a schema says nothing about.
    pub any_depth: u32,
    /// How often a schema is entered in itself.
    pub recursion: u32,
    /// Bytes of the longest answer, or 0 if it is not known.
    pub longest: u64,
    /// No names but those of `properties`, where nothing says more.
    pub closed_objects: bool,
    /// Control characters without a short escape, in four hexadecimal digits.
    pub unicode_escapes: bool,
    /// An integer may have a fraction of zeros.
    pub integer_fractions: bool,
    /// Refuse a `format` that the compiler does not have.
    pub refuse_unknown_formats: bool,
}

impl Default for Schemas<'_> {
    fn default() -> Self {
        Schemas {
            limits: Limits::default(),
            whitespace: None,
            any_depth: 2,
            recursion: 3,
            longest: 0,
            closed_objects: true,
            unicode_escapes: false,
            integer_fractions: false,
            refuse_unknown_formats: false,
        }
    }
}

fn flag(is_set: bool, bit: u32) -> u32 {
    if is_set {
        bit
    } else {
        0
    }
}

fn c_limits(limits: Limits, flags: u32) -> sys::unmask_language_options {
    let usual = Schemas::default();
    sys::unmask_language_options {
        struct_size: std::mem::size_of::<sys::unmask_language_options>() as u32,
        flags,
        states: limits.states,
        positions: limits.positions,
        milliseconds: limits.milliseconds,
        any_depth: usual.any_depth,
        recursion: usual.recursion,
        reserved: 0,
        longest: usual.longest,
        whitespace: null(),
        root: null(),
    }
}

/// A regular language: the smallest deterministic automaton over bytes. It does not change, so
/// that threads may share it.
#[derive(Debug)]
pub struct Language {
    raw: NonNull<sys::unmask_language>,
}

unsafe impl Send for Language {}
unsafe impl Sync for Language {}

impl Language {
    fn made(kind: i32, text: &[u8], options: &sys::unmask_language_options) -> Result<Language> {
        let mut raw = null_mut();
        check(unsafe {
            sys::unmask_language_new(kind, text.as_ptr().cast(), text.len(), options, &mut raw)
        })?;
        Ok(Language { raw: NonNull::new(raw).expect("a language that was made") })
    }

    /// Compiles a regular expression of ECMA-262 with flag u. A message begins with the column of
    /// what is refused.
    pub fn expression(text: &str, options: &Expressions) -> Result<Language> {
        let flags = flag(options.search, sys::SEARCH)
            | flag(options.strict, sys::STRICT)
            | flag(options.json_string, sys::JSON_STRING)
            | flag(options.unicode_escapes, sys::UNICODE_ESCAPES);
        Language::made(sys::EXPRESSION, text.as_bytes(), &c_limits(options.limits, flags))
    }

    /// Compiles the text of a JSON Schema of draft 2020-12 or 7. A message begins with the place of
    /// what is refused, a JSON pointer.
    pub fn json_schema(text: &str, options: &Schemas<'_>) -> Result<Language> {
        Language::of_schemas(sys::JSON_SCHEMA, text, options)
    }

    /// Compiles the text of a structural tag of SGLang, vLLM or xgrammar: texts between tags that
    /// obey schemas, with free text around them. A message begins with the place of what is
    /// refused, a JSON pointer.
    pub fn structural_tag(text: &str, options: &Schemas<'_>) -> Result<Language> {
        Language::of_schemas(sys::STRUCTURAL_TAG, text, options)
    }

    /// Compiles a grammar in the notation of llama.cpp (GBNF), the EBNF of xgrammar. A message
    /// begins with the line and the column of what is refused.
    pub fn grammar(text: &str, options: &Grammars<'_>) -> Result<Language> {
        let root = options.root.map(|r| c_text("root", r)).transpose()?;
        let mut o = c_limits(options.limits, 0);
        o.recursion = options.recursion;
        o.root = root.as_ref().map_or(null(), |r| r.as_ptr());
        Language::made(sys::GRAMMAR, text.as_bytes(), &o)
    }

    fn of_schemas(kind: i32, text: &str, options: &Schemas<'_>) -> Result<Language> {
        let flags = flag(options.unicode_escapes, sys::UNICODE_ESCAPES)
            | flag(!options.closed_objects, sys::OPEN_OBJECTS)
            | flag(options.integer_fractions, sys::INTEGER_FRACTIONS)
            | flag(options.refuse_unknown_formats, sys::REFUSE_UNKNOWN_FORMATS);
        let whitespace = options.whitespace.map(|w| c_text("whitespace", w)).transpose()?;
        let mut o = c_limits(options.limits, flags);
        o.any_depth = options.any_depth;
        o.recursion = options.recursion;
        o.longest = options.longest;
        o.whitespace = whitespace.as_ref().map_or(null(), |w| w.as_ptr());
        Language::made(kind, text.as_bytes(), &o)
    }

    /// Number of states.
    pub fn states(&self) -> usize {
        unsafe { sys::unmask_language_states(self.raw.as_ptr()) as usize }
    }

    /// Whether a text is a string of the language.
    pub fn accepts(&self, text: &[u8]) -> bool {
        let mut accepts = 0;
        let status = unsafe {
            sys::unmask_language_accepts(
                self.raw.as_ptr(),
                text.as_ptr().cast(),
                text.len(),
                &mut accepts,
            )
        };
        debug_assert_eq!(status, sys::OK);
        accepts != 0
    }

    /// Lifts the language to the tokens of a vocabulary.
    pub fn constraint(&self, words: &Vocabulary) -> Result<Constraint> {
        Constraint::made(|raw| unsafe {
            sys::unmask_language_constraint(self.raw.as_ptr(), words.raw.as_ptr(), null(), raw)
        })
    }
}

impl Drop for Language {
    fn drop(&mut self) {
        unsafe { sys::unmask_language_free(self.raw.as_ptr()) }
    }
}
