/** Counts of the work of an Effect: fibers, and steps of the interpreter. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Tracer from "effect/Tracer"

/** Fibers that started and steps that ran; it grows while the counted Effect runs. */
export interface WorkCount {
  fibers: number
  steps: number
}

/** Returns a function that counts into `count` while an Effect runs. Its tracer records spans, as an exporter's does. */
export const countInto = (count: WorkCount) => {
  const metrics: Metric.FiberRuntimeMetricsService = {
    recordFiberStart: () => void count.fibers++,
    recordFiberEnd: () => {}
  }
  const tracer = Tracer.make({
    span: (options) => new Tracer.NativeSpan(options),
    context: (primitive, fiber) => {
      count.steps++
      return primitive["~effect/Effect/evaluate"](fiber)
    }
  })
  return <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.provideContext(effect, counters(metrics, tracer))
}

const counters = (metrics: Metric.FiberRuntimeMetricsService, tracer: Tracer.Tracer) =>
  Context.make(Metric.FiberRuntimeMetrics, metrics).pipe(Context.add(Tracer.Tracer, tracer))
