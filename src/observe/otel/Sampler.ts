/**
 * Selects the runs to trace, by `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`. Pure. Everything inside of a run
 * follows the decision on the run.
 *
 * Source: OpenTelemetry, "General SDK Configuration".
 */
import type * as Tracer from "effect/Tracer"

/** Decides on a run by the span above it and the id of its trace. */
export interface Sampler {
  (parent: Tracer.AnySpan | undefined, traceId: string): boolean
}

/** Names of samplers. */
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

/** A trace is taken or not by its id, so that all who see it decide alike. */
const toFraction = (traceId: string): number => Number.parseInt(traceId.slice(-14), 16) / 2 ** 56

const makeRatioSampler =
  (rate: number): Sampler =>
  (_, traceId) =>
    toFraction(traceId) < rate

const makeParentBased =
  (root: Sampler): Sampler =>
  (parent, traceId) =>
    parent?.sampled ?? root(undefined, traceId)

/** The sampler of a name; `rate` counts for those by ratio. */
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
