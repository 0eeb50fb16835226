//! Macro for a driver that wraps another driver and passes calls to it.

/// Makes methods of [`Host`](crate::host::Host) that pass each call unchanged to a wrapped driver.
///
/// If a wrapper forgets a method that has a default, the wrapped driver loses that function, and
/// the compiler does not warn. So list all forwarded methods in one call of the macro.
/// `forward_host!(self.inner => ..)` names a field. `forward_host!(driver! => ..)` names a macro
/// that is called as `driver!(self, inner => inner.method(..))`, and selects one of several
/// drivers. `forward_host!(const H)` makes all constants those of the driver `H`.
///
/// # Examples
/// ```
/// use mmcq::host::{BusOp, Direction, DmaError, Events, Host, Phase, Segment, StartError, Step};
///
/// /// Counts the phases that were started.
/// struct Counted<H> {
///     inner: H,
///     started: u64,
/// }
///
/// // SAFETY: all calls go to the wrapped driver, in their order and with the segments unchanged.
/// unsafe impl<H: Host> Host for Counted<H> {
///     mmcq::forward_host!(const H);
///     mmcq::forward_host!(self.inner => caps goes_on_with is_prompt map unmap start_concurrent
///         ack ack_concurrent abort_concurrent early_r1 interrupt_lost command_hangs set_bus
///         isolate dat0_busy dat_levels present retune_ns supply_ma write_protected take_waker card_irq
///         queue chain);
///
///     fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
///         self.started += 1;
///         self.inner.start(phase, segments, timeout_ns)
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_host {
    (const $host:ty) => {
        const CONTINUES: bool = <$host as $crate::host::Host>::CONTINUES;
        const ALWAYS_CONTINUES: bool = <$host as $crate::host::Host>::ALWAYS_CONTINUES;
        const CONTINUES_BY_REQUEST: bool = <$host as $crate::host::Host>::CONTINUES_BY_REQUEST;
        const CONCURRENT: bool = <$host as $crate::host::Host>::CONCURRENT;
        const EARLY_R1: bool = <$host as $crate::host::Host>::EARLY_R1;
        const CARD_IRQ: bool = <$host as $crate::host::Host>::CARD_IRQ;
        const ONE_LINE: bool = <$host as $crate::host::Host>::ONE_LINE;
        const WAKES: bool = <$host as $crate::host::Host>::WAKES;
        const DEFERS_BY_REQUEST: bool = <$host as $crate::host::Host>::DEFERS_BY_REQUEST;
    };
    (self.$inner:ident => $($method:ident)*) => {
        $($crate::forward_host!(@$method [$inner]);)*
    };
    ($driver:ident! => $($method:ident)*) => {
        $($crate::forward_host!(@$method [$driver!]);)*
    };

    (@to [$inner:ident] $self:ident.$method:ident($($arg:ident),*)) => { $self.$inner.$method($($arg),*) };
    (@to [$driver:ident!] $self:ident.$method:ident($($arg:ident),*)) => {
        $driver!($self, inner => inner.$method($($arg),*))
    };

    (@caps $to:tt) => {
        #[inline(always)]
        fn caps(&self) -> &$crate::host::Caps { $crate::forward_host!(@to $to self.caps()) }
    };
    (@map $to:tt) => {
        #[inline(always)]
        fn map(
            &mut self,
            segment: &mut $crate::host::Segment,
            direction: $crate::host::Direction,
        ) -> Result<(), $crate::host::DmaError> {
            $crate::forward_host!(@to $to self.map(segment, direction))
        }
    };
    (@is_prompt $to:tt) => {
        #[inline(always)]
        fn is_prompt(&self, segment: &$crate::host::Segment, direction: $crate::host::Direction) -> bool {
            $crate::forward_host!(@to $to self.is_prompt(segment, direction))
        }
    };
    (@goes_on_with $to:tt) => {
        #[inline(always)]
        fn goes_on_with(
            &self,
            segment: &$crate::host::Segment,
            blocks: u32,
            direction: $crate::host::Direction,
        ) -> bool {
            $crate::forward_host!(@to $to self.goes_on_with(segment, blocks, direction))
        }
    };
    (@unmap $to:tt) => {
        #[inline(always)]
        fn unmap(&mut self, segment: &$crate::host::Segment, direction: $crate::host::Direction) {
            $crate::forward_host!(@to $to self.unmap(segment, direction))
        }
    };
    (@start $to:tt) => { $crate::forward_host!(@starts start $to); };
    (@start_fast $to:tt) => { $crate::forward_host!(@starts start_fast $to); };
    (@starts $start:ident $to:tt) => {
        #[inline(always)]
        fn $start(
            &mut self,
            phase: &$crate::host::Phase,
            segments: &[$crate::host::Segment],
            timeout_ns: u64,
        ) -> Result<(), $crate::host::StartError> {
            $crate::forward_host!(@to $to self.$start(phase, segments, timeout_ns))
        }
    };
    (@start_concurrent $to:tt) => {
        #[inline(always)]
        fn start_concurrent(
            &mut self,
            command: &$crate::spec::command::Command,
        ) -> Result<(), $crate::host::StartError> {
            $crate::forward_host!(@to $to self.start_concurrent(command))
        }
    };
    (@ack_concurrent $to:tt) => {
        #[inline(always)]
        fn ack_concurrent(&mut self) -> Option<Result<u32, $crate::host::Cause>> {
            $crate::forward_host!(@to $to self.ack_concurrent())
        }
    };
    (@ack $to:tt) => {
        #[inline(always)]
        fn ack(&mut self, segments: &[$crate::host::Segment]) -> $crate::host::Events {
            $crate::forward_host!(@to $to self.ack(segments))
        }
    };
    (@ack_fast $to:tt) => {
        #[inline(always)]
        fn ack_fast(
            &mut self,
            segments: &[$crate::host::Segment],
        ) -> Result<$crate::host::FastEnd, $crate::host::Events> {
            $crate::forward_host!(@to $to self.ack_fast(segments))
        }
    };
    (@set_bus $to:tt) => {
        #[inline(always)]
        fn set_bus(&mut self, op: $crate::host::BusOp, first: bool, now_ns: u64) -> $crate::host::Step {
            $crate::forward_host!(@to $to self.set_bus(op, first, now_ns))
        }
    };
    (@card_irq $to:tt) => {
        #[inline(always)]
        fn card_irq(&mut self, on: bool) { $crate::forward_host!(@to $to self.card_irq(on)) }
    };
    (@take_waker $to:tt) => {
        #[inline(always)]
        fn take_waker(&mut self) -> Option<core::task::Waker> {
            $crate::forward_host!(@to $to self.take_waker())
        }
    };
    (@queue $to:tt) => {
        #[inline(always)]
        fn queue(&mut self) -> Option<&mut dyn $crate::host::CommandQueueHost> {
            $crate::forward_host!(@to $to self.queue())
        }
    };
    (@chain $to:tt) => {
        #[inline(always)]
        fn chain(&mut self) -> Option<&mut dyn $crate::host::ChainHost> {
            $crate::forward_host!(@to $to self.chain())
        }
    };
    (@abort_concurrent $to:tt) => { $crate::forward_host!(@does $to abort_concurrent -> ()); };
    (@interrupt_lost $to:tt) => { $crate::forward_host!(@does $to interrupt_lost -> ()); };
    (@early_r1 $to:tt) => { $crate::forward_host!(@does $to early_r1 -> Option<u32>); };
    (@isolate $to:tt) => { $crate::forward_host!(@does $to isolate -> bool); };
    (@command_hangs $to:tt) => { $crate::forward_host!(@says $to command_hangs -> bool); };
    (@dat0_busy $to:tt) => { $crate::forward_host!(@says $to dat0_busy -> bool); };
    (@dat_levels $to:tt) => { $crate::forward_host!(@says $to dat_levels -> u8); };
    (@present $to:tt) => { $crate::forward_host!(@says $to present -> bool); };
    (@retune_ns $to:tt) => { $crate::forward_host!(@says $to retune_ns -> u64); };
    (@supply_ma $to:tt) => { $crate::forward_host!(@says $to supply_ma -> u16); };
    (@write_protected $to:tt) => { $crate::forward_host!(@says $to write_protected -> bool); };
    (@does $to:tt $method:ident -> $result:ty) => {
        #[inline(always)]
        fn $method(&mut self) -> $result { $crate::forward_host!(@to $to self.$method()) }
    };
    (@says $to:tt $method:ident -> $result:ty) => {
        #[inline(always)]
        fn $method(&self) -> $result { $crate::forward_host!(@to $to self.$method()) }
    };
}
