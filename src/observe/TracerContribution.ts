/** Reports the runs of a runtime to the application's tracer and metrics. `RunTelemetry` loads this module. */
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Recorder } from "../base/domain/RunRecorder.ts"
import * as Hooks from "../hooks/Hooks.ts"
import type { LlmContext, ToolCallContext } from "../middleware/Kind.ts"
import type { RunRecord } from "../store/RunRecord.ts"
import * as Attributes from "./otel/Attributes.ts"
import * as Conventions from "./otel/Conventions.ts"
import * as Metrics from "./otel/Metrics.ts"
import * as TracerSpans from "./otel/TracerSpans.ts"
import * as RunSpans from "./RunSpans.ts"
import * as LiveSpans from "./LiveSpans.ts"

import type { Options } from "./RunTelemetry.ts"
import { type Contribution, makeMiddleware } from "./SpanMiddleware.ts"

/** Returns the step number of an attempt, or `undefined` for a side task. */
const getStepNumber = ({ apiCallCount, platform }: LlmContext): number | undefined =>
  platform.startsWith("auxiliary:") ? undefined : apiCallCount

/** Builds the contribution of the plugin. `remedy` is the advice in the warning about a second one. */
export const buildContribution = (
  options: Options,
  { remedy, target }: { readonly target: string; readonly remedy: string }
): Effect.Effect<Contribution, never, RunRecord | Scope.Scope> =>
  Effect.gen(function* () {
    const { agentUsage, captureContent = false, agentName = "hermes", parent, registry, sampler, tracer } = options
    const conventions = Conventions.getTable(options.conventions)
    const isExcluded = (other: string) => other === target || other.startsWith("otlp ")
    if (!(yield* LiveSpans.claimTarget(target, { excludes: isExcluded, remedy }))) return { hooks: [], middleware: [] }
    const clock = yield* Clock.Clock
    const spans = TracerSpans.make({ agentName, tracer, parent, sampler })
    // The application's tracer assigns ids and parents. The ids returned here only identify spans relative to each
    // other.
    const makeTrace = ({ turnId }: { readonly turnId: string }): RunSpans.Trace => ({
      traceId: RunSpans.makeTraceId(turnId),
      parentSpanId: undefined,
      sampled: true
    })
    yield* Effect.addFinalizer(() => Effect.sync(() => spans.close(clock.currentTimeMillisUnsafe())))
    const registries = new WeakMap<Context.Context<never>, Metrics.MetricRecorder>()
    const getRecorder = (into: Context.Context<never>): Metrics.MetricRecorder => {
      const known = registries.get(into) ?? Metrics.toRegistry(into)
      registries.set(into, known)
      return known
    }
    yield* LiveSpans.listen(
      Attributes.makeView({ agentName, captureContent, conventions, agentUsage }, makeTrace),
      {
        open: spans.sink.open,
        close: (span) => {
          const into = registry ?? spans.makeContext(RunSpans.findRun(span.node).turnId)
          if (into !== undefined) Metrics.recordSpan(span, agentName, getRecorder(into), conventions)
          spans.sink.close(span)
        }
      },
      captureContent
    )
    const toBegunCall = (
      context: Context.Context<never>,
      { isChild, turnId }: Recorder,
      { sessionId }: LlmContext | ToolCallContext
    ): TracerSpans.BegunCall => ({ context, turnId, sessionId, isChild, startedAt: clock.currentTimeMillisUnsafe() })
    return {
      hooks: [
        Hooks.observer(
          { label: "otel" },
          {
            pre_llm_call: ({ turn_id }) =>
              Effect.contextWith((context: Context.Context<never>) => Effect.sync(() => spans.enter(turn_id, context)))
          }
        )
      ],
      middleware: makeMiddleware(
        {
          attempt: (context, run, attempt) =>
            spans.attempt(toBegunCall(context, run, attempt), {
              apiRequestId: attempt.apiRequestId,
              model: attempt.model,
              step: getStepNumber(attempt)
            }),
          call: (context, run, call) =>
            spans.call(toBegunCall(context, run, call), {
              apiRequestId: call.apiRequestId,
              callId: call.toolCallId,
              name: call.toolName
            })
        },
        undefined
      )
    }
  })
