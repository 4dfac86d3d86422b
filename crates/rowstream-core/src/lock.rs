//! Locks that are used on after a panic.
//!
//! The standard library poisons a lock whose holder panics, and asks each later holder what to make
//! of that. Here the answer is the same everywhere: nothing under these locks panics half way
//! through a change, so what they hold is whole; and the panic of one request ends that request
//! and not the server.

pub use std::sync::MutexGuard;
use std::sync::{self, PoisonError, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// [`std::sync::Mutex`] without poison.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Waits for the lock, and holds it until the guard is dropped.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`std::sync::RwLock`] without poison.
#[derive(Debug, Default)]
pub struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    /// Waits until no writer holds the lock.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing else holds the lock.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`std::sync::Condvar`] without poison.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// A condition that no thread waits for.
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// May wake by itself.
    pub fn wait<'a, T>(&self, held: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(held).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while `condition` is true.
    pub fn wait_while<'a, T>(
        &self,
        held: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        self.0.wait_while(held, condition).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Condvar::wait_while`], for so long at most.
    pub fn wait_timeout_while<'a, T>(
        &self,
        held: MutexGuard<'a, T>,
        time: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        self.0.wait_timeout_while(held, time, condition).unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_used_on_after_a_panic() {
        let (mutex, shared) = (Mutex::new(1), RwLock::new(1));
        std::thread::scope(|scope| {
            let panics = scope.spawn(|| {
                let (mut held, mut written) = (mutex.lock(), shared.write());
                (*held, *written) = (2, 2);
                panic!("under both locks");
            });
            assert!(panics.join().is_err());
        });
        assert_eq!((*mutex.lock(), *shared.read()), (2, 2));
    }
}
