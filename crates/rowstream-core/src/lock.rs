//! Locks without poisoning.
//!
//! The standard library poisons a lock if its holder panics, and each later holder has to handle
//! that. Our code never panics halfway through a change under these locks, so their data stays
//! consistent. The panic of one request ends that request, not the server.

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

    /// Waits for the lock. Dropping the guard releases it.
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

    /// Waits until there's no writer.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there's no reader and no other writer.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`std::sync::Condvar`] without poison.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// A condition without waiting threads.
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

    /// Waits for a wake-up, which can be spurious.
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

    /// Like [`Condvar::wait_while`], but at most for `time`.
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
