//! See [`rowstream_fuzz::sql()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::sql);
