//! The types of a source. We know built-in ones by their OID, and query the catalog for others once
//! per source.
//!
//! The catalog's answer can become outdated: a migration alters a composite, and the server sends
//! no message about it. So our knowledge has a version. If the version rises, we forget all types,
//! and describe all statements again. It rises when
//!
//! 1. a value doesn't match its type's description (it has more or fewer attributes): that response
//!    fails;
//! 2. the catalog's answer has changed. A value doesn't show the names of its attributes, so we
//!    query the catalog before each response that has composites;
//! 3. a statement shows that a migration has altered its tables;
//! 4. the server reloads.
//!
//! A prepared statement keeps the types of its parameters. If only a column that it compares was altered,
//! PostgreSQL reports no error, but compares as the former type: `citext` as text, `timestamptz` without
//! the value's zone. Other rows are found, or none. So 3 and 4 concern all statements.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use postgres_types::{Kind, Type};
use rowstream_core::lock::Mutex;

use super::nested::{Attribute, Form, NestedForms};
use super::value::{Decoder, text_field};

/// The types of a source.
#[derive(Debug, Default)]
pub(super) struct Types {
    known: Mutex<CatalogTypes>,
    version: Arc<AtomicU64>,
}

/// A column's type: its name, and the decoder of its values.
pub(super) struct ColumnType {
    pub(super) name: String,
    pub(super) decoder: Decoder,
}

impl Types {
    /// The current version. A description from another version may be outdated.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Raises the version, because a description of this version is outdated. A later version has seen
    /// the same migration.
    pub(super) fn outdate(&self, version: u64) {
        let _ = self.version.compare_exchange(version, version + 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The types that need a query of the catalog.
    pub(super) fn missing(&self, oids: impl Iterator<Item = u32>) -> Vec<u32> {
        let known = self.known();
        oids.filter(|&oid| TypeInfo::built_in(oid).is_none() && !known.types.contains_key(&oid)).collect()
    }

    /// Learns a row of the [`catalog_query`]; `None` if it can't be read.
    pub(super) fn learn(&self, row: &[u8]) -> Option<()> {
        let number = |index| text_field(row, index).and_then(|text| text.parse().ok());
        let (oid, name) = (number(0)?, text_field(row, 1)?.to_owned());
        let delimiter = text_field(row, 4)?.bytes().next()?;
        let attributes = text_field(row, 5).map(serde_json::from_str);
        let parts = match (number(2), number(3), attributes) {
            (Some(base), _, _) => TypeParts::Domain { base },
            (_, Some(element), _) => TypeParts::Array { element, delimiter },
            (_, _, Some(attributes)) => TypeParts::Composite(attributes.ok()?),
            _ if text_field(row, 6)? == "t" => TypeParts::Hstore,
            _ => TypeParts::None,
        };
        if self.known().types.get(&oid).is_some_and(|known| known.parts != parts) {
            self.version.fetch_add(1, Ordering::Relaxed);
        }
        self.known().types.insert(oid, TypeInfo { name, parts });
        Some(())
    }

    /// The types that are known to contain composites.
    pub(super) fn composites(&self, oids: impl Iterator<Item = u32>) -> Vec<u32> {
        let known = self.known();
        oids.filter(|&oid| known.decoder(oid, &self.version).has_composites()).collect()
    }

    /// The types of columns. All are known, unless one was dropped meanwhile.
    pub(super) fn of_columns(&self, oids: impl Iterator<Item = u32>) -> Vec<ColumnType> {
        let known = self.known();
        oids.map(|oid| ColumnType { name: known.name(oid), decoder: known.decoder(oid, &self.version) })
            .collect()
    }

    /// The name of a type.
    pub(super) fn name(&self, oid: u32) -> String {
        self.known().name(oid)
    }

    /// True if the values of a type have no items, as those of an array do.
    pub(super) fn is_single(&self, oid: u32) -> bool {
        let known = self.known();
        let info = known.info(known.base(oid));
        info.is_some_and(|info| !matches!(info.parts, TypeParts::Array { .. } | TypeParts::Vector { .. }))
    }

    fn known(&self) -> MutexGuard<'_, CatalogTypes> {
        let mut known = self.known.lock();
        let version = self.version();
        if known.version != version {
            *known = CatalogTypes { version, ..CatalogTypes::default() };
        }
        known
    }
}

/// The types that aren't built in, as the catalog described them.
#[derive(Debug, Default)]
struct CatalogTypes {
    version: u64,
    types: HashMap<u32, TypeInfo>,
}

impl CatalogTypes {
    fn info(&self, oid: u32) -> Option<TypeInfo> {
        TypeInfo::built_in(oid).or_else(|| self.types.get(&oid).cloned())
    }

    fn parts(&self, oid: u32) -> TypeParts {
        self.info(oid).map_or(TypeParts::None, |info| info.parts)
    }

    fn name(&self, oid: u32) -> String {
        self.info(oid).map_or_else(|| "unknown".to_owned(), |info| info.name)
    }

    fn decoder(&self, oid: u32, version: &Arc<AtomicU64>) -> Decoder {
        let oid = self.base(oid);
        match self.parts(oid) {
            TypeParts::None | TypeParts::Domain { .. } => Decoder::of(oid),
            TypeParts::Array { .. }
            | TypeParts::Vector { .. }
            | TypeParts::Composite(_)
            | TypeParts::Hstore => {
                let forms = NestedForms::new(self.forms(oid), self.element(oid), Arc::clone(version));
                Decoder::Nested(Arc::new(forms))
            }
        }
    }

    /// The type of an array's elements, if they contain no other values.
    fn element(&self, oid: u32) -> Option<u32> {
        let TypeParts::Array { element, .. } = self.parts(oid) else { return None };
        let element = self.base(element);
        matches!(self.parts(element), TypeParts::None).then_some(element)
    }

    /// The base of a domain; any other type is its own base.
    fn base(&self, mut oid: u32) -> u32 {
        // A chain that is longer than the number of types would be a circle, and no catalog has
        // one.
        for _ in 0..self.types.len() {
            match self.types.get(&oid) {
                Some(TypeInfo { parts: TypeParts::Domain { base }, .. }) => oid = *base,
                _ => break,
            }
        }
        oid
    }

    /// The forms of a type and of all types in its values, each once.
    fn forms(&self, oid: u32) -> Vec<Form> {
        let mut oids = vec![oid];
        let mut forms = Vec::new();
        while let Some(&oid) = oids.get(forms.len()) {
            let mut number = |oid| {
                let oid = self.base(oid);
                oids.iter().position(|&other| other == oid).unwrap_or_else(|| {
                    oids.push(oid);
                    oids.len() - 1
                })
            };
            forms.push(match self.parts(oid) {
                TypeParts::Array { element, delimiter } => {
                    Form::Array { element: number(element), delimiter }
                }
                TypeParts::Vector { element } => Form::Vector { element: number(element) },
                TypeParts::Composite(attributes) => Form::Composite(
                    attributes.iter().map(|(name, oid)| Attribute::new(name, number(*oid))).collect(),
                ),
                TypeParts::Hstore => Form::Hstore,
                TypeParts::None | TypeParts::Domain { .. } => Form::of(oid),
            });
        }
        forms
    }
}

/// A type's name and its parts.
#[derive(Debug, Clone)]
struct TypeInfo {
    name: String,
    parts: TypeParts,
}

/// The parts of a type's values, as OIDs of types.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TypeParts {
    /// No parts that JSON distinguishes.
    None,
    Domain {
        base: u32,
    },
    Array {
        element: u32,
        delimiter: u8,
    },
    /// `int2vector` and `oidvector`.
    Vector {
        element: u32,
    },
    /// The names and types of its attributes.
    Composite(Vec<(String, u32)>),
    Hstore,
}

impl TypeInfo {
    fn built_in(oid: u32) -> Option<Self> {
        let kind = Type::from_oid(oid)?;
        let (suffix, parts) = match kind.kind() {
            Kind::Array(element) if matches!(kind, Type::INT2_VECTOR | Type::OID_VECTOR) => {
                ("", TypeParts::Vector { element: element.oid() })
            }
            Kind::Array(element) => {
                ("[]", TypeParts::Array { element: element.oid(), delimiter: delimiter(element) })
            }
            _ => ("", TypeParts::None),
        };
        Some(Self { name: kind.name().trim_start_matches('_').to_owned() + suffix, parts })
    }
}

/// `box` is the only type whose array elements are separated by semicolons, because its text
/// contains commas.
fn delimiter(element: &Type) -> u8 {
    match *element {
        Type::BOX => b';',
        _ => b',',
    }
}

/// The catalog query for types that aren't built in, and for all types in their values: OID, name,
/// the base of a domain, the element of an array, the delimiter of its elements, the attributes of
/// a composite as JSON, and true for an `hstore` with a cast to `json`. (`to_jsonb` checks for such
/// a cast too.)
pub(super) fn catalog_query(oids: &[u32]) -> String {
    let oids = oids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    format!(
        "with recursive used(oid) as (
           select t.oid from pg_catalog.pg_type t where t.oid in ({oids})
           union
           select part.oid
           from used join pg_catalog.pg_type t on t.oid = used.oid, lateral (
             select t.typbasetype where t.typtype = 'd'
             union all
             select t.typelem where t.typtype <> 'd' and t.typcategory = 'A'
             union all
             select a.atttypid from pg_catalog.pg_attribute a
             where t.typtype = 'c' and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
           ) part(oid)
         )
         select t.oid, pg_catalog.format_type(t.oid, null),
           case when t.typtype = 'd' then t.typbasetype end,
           case when t.typtype <> 'd' and t.typcategory = 'A' then t.typelem end,
           t.typdelim,
           case when t.typtype = 'c' then (
             select coalesce(json_agg(json_build_array(a.attname, a.atttypid::bigint) order by a.attnum), '[]')
             from pg_catalog.pg_attribute a
             where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped) end,
           t.typname = 'hstore' and exists (
             select from pg_catalog.pg_cast c
             where c.castsource = t.oid and c.casttarget = 'pg_catalog.json'::regtype and c.castmethod = 'f')
         from used join pg_catalog.pg_type t on t.oid = used.oid"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_built_in_types_know_their_element() {
        for (kind, name, parts) in [
            (Type::INT4, "int4", TypeParts::None),
            (Type::INT4_ARRAY, "int4[]", TypeParts::Array { element: Type::INT4.oid(), delimiter: b',' }),
            (Type::BOX_ARRAY, "box[]", TypeParts::Array { element: Type::BOX.oid(), delimiter: b';' }),
            (Type::OID_VECTOR, "oidvector", TypeParts::Vector { element: Type::OID.oid() }),
        ] {
            let info = TypeInfo::built_in(kind.oid()).unwrap();
            assert_eq!((info.name.as_str(), info.parts), (name, parts));
        }
        assert!(TypeInfo::built_in(999_999).is_none());
    }

    /// A DataRow of text fields.
    fn row(fields: &[Option<&str>]) -> Vec<u8> {
        let mut row = (fields.len() as u16).to_be_bytes().to_vec();
        for field in fields {
            row.extend(field.map_or(-1, |text| text.len() as i32).to_be_bytes());
            row.extend(field.unwrap_or_default().as_bytes());
        }
        row
    }

    fn learn(types: &Types, oid: &str, [base, element, attributes]: [Option<&str>; 3]) -> Option<()> {
        types.learn(&row(&[Some(oid), Some("name"), base, element, Some(","), attributes, Some("f")]))
    }

    #[test]
    fn types_that_hold_themselves_have_an_end() {
        let types = Types::default();
        // PostgreSQL allows no such type: a composite of an integer and an array of a domain over
        // itself.
        learn(&types, "70001", [None, None, Some("[[\"n\", 23], [\"a\", 70003]]")]).unwrap();
        learn(&types, "70002", [Some("70001"), None, None]).unwrap();
        learn(&types, "70003", [None, Some("70002"), None]).unwrap();
        let forms = types.known().forms(70_001);
        let [Form::Composite(attributes), Form::Number, Form::Array { element: 0, delimiter: b',' }] =
            &forms[..]
        else {
            panic!("{forms:?}");
        };
        assert_eq!(attributes.iter().map(|attribute| attribute.form).collect::<Vec<_>>(), [1, 2]);
        // Two domains, each based on the other.
        learn(&types, "70004", [Some("70005"), None, None]).unwrap();
        learn(&types, "70005", [Some("70004"), None, None]).unwrap();
        assert!(matches!(types.of_columns([70_004].into_iter())[0].decoder, Decoder::Text));
    }

    #[test]
    fn a_new_version_knows_nothing() {
        let types = Types::default();
        learn(&types, "70001", [None; 3]).unwrap();
        assert_eq!(types.missing([70_001, 70_002, 23].into_iter()), [70_002]);
        types.version.fetch_add(1, Ordering::Relaxed);
        assert_eq!(types.missing([70_001, 70_002, 23].into_iter()), [70_001, 70_002]);
    }

    #[test]
    fn another_word_raises_the_version() {
        let types = Types::default();
        for (name, version) in [("n", 0), ("n", 0), ("m", 1), ("m", 1)] {
            let attributes = format!("[[\"{name}\", 23]]");
            learn(&types, "70001", [None, None, Some(&attributes)]).unwrap();
            assert_eq!(types.version(), version);
            assert!(types.missing([70_001].into_iter()).is_empty());
        }
    }

    #[test]
    fn what_is_no_row_of_the_catalog_is_refused() {
        let types = Types::default();
        assert_eq!(learn(&types, "x", [None; 3]), None);
        assert_eq!(learn(&types, "1", [None, None, Some("[1]")]), None);
        assert_eq!(types.learn(&row(&[Some("70001"), Some("name")])), None);
        assert_eq!(types.learn(&[]), None);
    }
}
