//! `Debug` of types that hold attribute values, which logs must not contain.

/// Implements `Debug` with these fields only.
macro_rules! redacted {
    ($kind:ident, $($field:ident),+) => {
        impl std::fmt::Debug for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($kind));
                $(shown.field(stringify!($field), &self.$field);)+
                shown.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use redacted;
