//! See [`rowstream_fuzz::proxy_protocol()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::proxy_protocol);
