//! A watched value whose watchers are woken in the order in which they began to wait. tokio's wakes them as chance has it.

use std::sync::Arc;

use futures::FutureExt;
use openraft::{
    OptionalSend, OptionalSync,
    async_runtime::{
        RecvError,
        watch::{self, SendError},
    },
};
use tokio::{
    sync::{Notify, watch as tokio_watch},
    task::coop,
};

/// Makes watched values.
#[derive(Debug)]
pub struct Watch;

/// Changes a watched value.
#[derive(Debug)]
pub struct Sender<T> {
    value: tokio_watch::Sender<T>,
    // After the value: the last one of all rings when that is closed already.
    bell: Bell,
}

/// Watches a value.
#[derive(Debug)]
pub struct Receiver<T> {
    value: tokio_watch::Receiver<T>,
    changed: Arc<Notify>,
}

/// A sender's handle; rings at its end.
#[derive(Debug)]
struct Bell(Arc<Notify>);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.notify_waiters();
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), bell: Bell(self.bell.0.clone()) }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), changed: self.changed.clone() }
    }
}

impl watch::Watch for Watch {
    type Sender<T: OptionalSend + OptionalSync> = Sender<T>;
    type Receiver<T: OptionalSend + OptionalSync> = Receiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = tokio_watch::Ref<'a, T>;

    fn channel<T: OptionalSend + OptionalSync>(init: T) -> (Sender<T>, Receiver<T>) {
        let ((value, watched), changed) = (tokio_watch::channel(init), Arc::<Notify>::default());
        (Sender { value, bell: Bell(changed.clone()) }, Receiver { value: watched, changed })
    }
}

impl<T: OptionalSend + OptionalSync> watch::WatchSender<Watch, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.value.send(value).map_err(|error| SendError(error.0))?;
        self.bell.0.notify_waiters();
        Ok(())
    }

    fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        let modified = self.value.send_if_modified(modify);
        if modified {
            self.bell.0.notify_waiters();
        }
        modified
    }

    fn borrow_watched(&self) -> tokio_watch::Ref<'_, T> {
        self.value.borrow()
    }

    fn subscribe(&self) -> Receiver<T> {
        Receiver { value: self.value.subscribe(), changed: self.bell.0.clone() }
    }
}

impl<T: OptionalSend + OptionalSync> watch::WatchReceiver<Watch, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        loop {
            // Hears every ring from here on, before it is awaited too.
            let rung = self.changed.notified();
            // Out of budget, tokio would say that nothing has changed, and wake nobody afterwards.
            match coop::unconstrained(self.value.changed()).now_or_never() {
                Some(changed) => return changed.map_err(|_| RecvError(())),
                None => rung.await,
            }
        }
    }

    fn borrow_watched(&self) -> tokio_watch::Ref<'_, T> {
        self.value.borrow()
    }

    fn borrow_and_update(&mut self) -> tokio_watch::Ref<'_, T> {
        self.value.borrow_and_update()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Mutex, task::Poll};

    use futures::poll;
    use openraft::async_runtime::watch::{Watch as _, WatchReceiver as _, WatchSender as _};

    use super::*;

    #[tokio::test]
    async fn watchers_are_woken_in_the_order_in_which_they_wait() {
        let (sender, receiver) = Watch::channel(0);
        let woken = Arc::<Mutex<Vec<usize>>>::default();
        let wait = |number| {
            let (mut receiver, woken) = (receiver.clone(), woken.clone());
            tokio::spawn(async move {
                receiver.changed().await.unwrap();
                woken.lock().unwrap().push(number);
            })
        };
        let waiting: Vec<_> = (0..20).map(wait).collect();
        tokio::task::yield_now().await;
        sender.send(1).unwrap();
        futures::future::join_all(waiting).await;
        assert_eq!(*woken.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_change_is_seen_by_a_task_that_has_used_up_its_budget() {
        let (sender, mut receiver) = Watch::channel(0);
        sender.send(1).unwrap();
        let looked = tokio::spawn(async move {
            while coop::has_budget_remaining() {
                coop::consume_budget().now_or_never();
            }
            receiver.changed().now_or_never()
        });
        assert_eq!(looked.await.unwrap(), Some(Ok(())));
    }

    #[tokio::test]
    async fn a_change_is_seen_once_by_each_also_by_one_that_looks_later() {
        let (sender, mut receiver) = Watch::channel(0);
        let mut late = receiver.clone();
        assert!(!sender.send_if_modified(|_| false));
        assert_eq!(receiver.changed().now_or_never(), None);
        sender.send(1).unwrap();
        assert_eq!(receiver.changed().now_or_never(), Some(Ok(())));
        assert_eq!(receiver.changed().now_or_never(), None);
        assert_eq!(late.changed().now_or_never(), Some(Ok(())));
        assert_eq!(sender.subscribe().changed().now_or_never(), None);
        sender.send(2).unwrap();
        drop(sender);
        assert_eq!(late.changed().now_or_never(), Some(Ok(())), "nor is the last one lost");
        assert_eq!(late.changed().now_or_never(), Some(Err(RecvError(()))));
    }

    #[tokio::test]
    async fn the_end_of_the_last_sender_wakes_whoever_waits() {
        let (sender, mut receiver) = Watch::channel(0);
        let another = sender.clone();
        let mut changed = Box::pin(receiver.changed());
        assert_eq!(poll!(&mut changed), Poll::Pending);
        drop(sender);
        assert_eq!(poll!(&mut changed), Poll::Pending);
        drop(another);
        assert_eq!(poll!(&mut changed), Poll::Ready(Err(RecvError(()))));
    }
}
