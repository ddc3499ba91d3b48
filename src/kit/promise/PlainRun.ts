/** Converts the input of a run from plain values. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Agent from "../../agent/Agent.ts"
import type { ResumeInput, StartOptions } from "../../agent/RunInput.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as Json from "../../base/domain/Json.ts"
import * as RetryPolicy from "../../models/routing/RetryPolicy.ts"
import { type Selection, ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as Toolsets from "../../tools/Toolsets.ts"
import { HermesError } from "./HermesError.ts"
import { checkInput, checkResumeInput, type HermesInput, type HermesResumeInput } from "./HermesOptions.ts"
import { toRunContext } from "./PlainContext.ts"
import { toRoute } from "./PlainModels.ts"
import * as Options from "./PlainOptions.ts"
import { toOutput } from "./PlainOutput.ts"
import { toRetryPolicy } from "./PlainPolicies.ts"
import { toHistory, toPrompt } from "./PlainPrompt.ts"
import { presentMessages } from "./PlainSessions.ts"

/** A run that can be started. */
export interface PlannedRun {
  readonly options: Omit<StartOptions, "tools">
  readonly tools: HermesInput["tools"]
  readonly context: unknown
  readonly retry: RetryPolicy.RetryPolicy | undefined
  readonly signal: AbortSignal | undefined
  /** True if a streamed run continues when its reader leaves. */
  readonly isKept: boolean
  /** Answers with which the run continues its suspended session; `undefined` for a new run. */
  readonly resumed?: Pick<ResumeInput, "answers" | "audience"> | undefined
}

/** Calls a listener of the application with each event, and waits for it. */
const callInOrder =
  <Event>(listener: (event: Event) => unknown) =>
  (events: ReadonlyArray<Event>): Effect.Effect<void> =>
    Effect.promise(async () => {
      for (const event of events) await listener(event)
    })

/** Reads the input of a run. Throws an `InvalidInput` or a `ConfigError` that names each mistake. */
export const planRun = (input: string | HermesInput): PlannedRun =>
  typeof input === "string"
    ? {
        options: { prompt: input },
        tools: undefined,
        context: undefined,
        retry: undefined,
        signal: undefined,
        isKept: false
      }
    : Options.readPlainly("InvalidInput", "the input of the run", () => readInput(input))

const readInput = (input: HermesInput): PlannedRun => {
  // A program without type checks may omit the prompt.
  if (!Json.isFields(input) || !(typeof input.prompt === "string" || Array.isArray(input.prompt)))
    throw new HermesError("InvalidInput", "the prompt is missing: give a text, or { prompt }")
  checkInput(input)
  const { context, history, model, onEvent, onUsageAfter, output, prompt, retry, signal, tools, whenLeft, ...rest } =
    input
  const options = {
    ...rest,
    ...(onEvent === undefined
      ? {}
      : { onEvent: (events: ReadonlyArray<RunEvent>) => callInOrder(onEvent)(presentMessages(events)) }),
    ...(onUsageAfter === undefined ? {} : { onUsageAfter: callInOrder(onUsageAfter) }),
    prompt: toPrompt(prompt),
    ...(history === undefined ? {} : { history: toHistory(history, "history") }),
    ...(model === undefined ? {} : { route: toRoute(model, "model") }),
    ...(output === undefined ? {} : { output: toOutput(output) })
  }
  const policy = retry === undefined ? undefined : toRetryPolicy(retry)
  return { options, tools, context, retry: policy, signal, isKept: whenLeft === "continue" }
}

/** Reads the input of a resumption. Throws an `InvalidInput` or a `ConfigError` that names each mistake. */
export const planResumption = (input: HermesResumeInput): PlannedRun =>
  Options.readPlainly("InvalidInput", "the input of the resumption", () => {
    if (!Json.isFields(input) || typeof input.sessionId !== "string")
      throw new HermesError("InvalidInput", "the session is missing: give { sessionId, answers }")
    checkResumeInput(input)
    const { answers, audience, ...run } = input
    return { ...readInput({ ...run, prompt: "resumed" }), resumed: { answers, audience } }
  })

/** Selects registered tools and toolsets by their names. Fails for a name that is not registered. */
const selectNamed = Effect.fnUntraced(function* (names: ReadonlyArray<string>) {
  const registry = Option.getOrUndefined(yield* Effect.serviceOption(ToolRegistry))
  if (registry === undefined)
    return yield* Effect.fail(
      new HermesError("ConfigError", "tools: the layer of this runtime provides no registry, to select by names")
    )
  const { selection, unknown } = Toolsets.choose(names, yield* registry.list, [])
  const [first] = unknown
  if (first === undefined) return names.length === 0 ? { tool: () => false } : selection
  const meant = first.nearest === undefined ? "" : `; did you mean ${first.nearest}?`
  return yield* Effect.fail(
    new HermesError("InvalidInput", `tools: no tool or toolset has the name ${JSON.stringify(first.name)}${meant}`)
  )
})

const readSelection = (tools: HermesInput["tools"]): Effect.Effect<Selection | undefined, HermesError> => {
  if (tools === undefined) return Effect.undefined
  // A selection by functions is an object.
  return Array.isArray(tools) ? selectNamed(tools) : Effect.succeed(tools as Selection)
}

/** Runs the agent. `own` is the selection of tools for runs that make none. */
export const startRun = ({ context, options, resumed, retry, tools }: PlannedRun, own: Selection | undefined) =>
  Effect.flatMap(readSelection(tools ?? own), (selection) => {
    const input = {
      ...options,
      ...(selection === undefined ? {} : { tools: selection }),
      ...(context === undefined ? {} : { context: toRunContext(context) })
    }
    const run =
      resumed === undefined
        ? Agent.run(input)
        : Agent.resume({ ...input, ...resumed, sessionId: options.sessionId ?? "" })
    const presented = Effect.map(run, (result) => {
      presentMessages([result])
      return result
    })
    return retry === undefined ? presented : Effect.provideService(presented, RetryPolicy.CallPolicy, retry)
  })
