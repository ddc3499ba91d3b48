/**
 * Selection of the runs to trace, according to `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`. The decision on a
 * run applies to everything inside it. All functions are pure.
 *
 * Source: OpenTelemetry, "General SDK Configuration".
 */
import type * as Tracer from "effect/Tracer"

/** Decides whether a run is traced, from its parent span and its trace id. */
export interface Sampler {
  (parent: Tracer.AnySpan | undefined, traceId: string): boolean
}

/** Supported samplers, by their names in `OTEL_TRACES_SAMPLER`. */
export const names = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio"
] as const

/** One of {@link names}. */
export type Name = (typeof names)[number]

/** Maps a trace id to a number from 0 to 1, so that all programs in a trace make the same sampling decision. */
const toFraction = (traceId: string): number => Number.parseInt(traceId.slice(-14), 16) / 2 ** 56

const makeRatioSampler =
  (rate: number): Sampler =>
  (_, traceId) =>
    toFraction(traceId) < rate

const makeParentBased =
  (root: Sampler): Sampler =>
  (parent, traceId) =>
    parent?.sampled ?? root(undefined, traceId)

/** Creates the sampler with the given name. `rate` applies only to ratio samplers. */
export const fromName = (name: Name, rate: number): Sampler => {
  switch (name) {
    case "always_on":
      return () => true
    case "always_off":
      return () => false
    case "traceidratio":
      return makeRatioSampler(rate)
    case "parentbased_always_on":
      return makeParentBased(() => true)
    case "parentbased_always_off":
      return makeParentBased(() => false)
    case "parentbased_traceidratio":
      return makeParentBased(makeRatioSampler(rate))
  }
}
