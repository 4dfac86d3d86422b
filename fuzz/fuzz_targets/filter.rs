//! See [`rowstream_fuzz::filter()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::filter);
