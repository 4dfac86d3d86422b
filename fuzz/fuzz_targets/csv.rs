//! See [`rowstream_fuzz::csv()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::csv);
