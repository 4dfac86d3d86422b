//! See [`rowstream_fuzz::endpoint()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::endpoint);
