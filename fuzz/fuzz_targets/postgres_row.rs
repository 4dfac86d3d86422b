//! See [`rowstream_fuzz::postgres_row()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::postgres_row);
