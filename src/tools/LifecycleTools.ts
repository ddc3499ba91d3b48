/**
 * The phases of lifecycle middleware around one tool call. `before_tool` may change the arguments, refuse the call or
 * answer it. `after_tool` may change the result before it reaches the model and the store.
 *
 * Source: `ARCHITECTURE.md` §4 and §7.
 */
import * as Effect from "effect/Effect"
import { ExecutionBlocked } from "../base/domain/AgentError.ts"
import { RedactSecrets } from "../base/domain/Redaction.ts"
import type { ToolStatus } from "../base/domain/RunEvent.ts"
import * as Frozen from "../middleware/Frozen.ts"
import type { ToolArguments, ToolCallContext } from "../middleware/Kind.ts"
import type { AfterToolInput, BeforeToolInput, RunFacts } from "../middleware/Lifecycle.ts"
import type { Changes, LifecycleStack, PhaseFailure } from "../middleware/LifecycleStack.ts"
import type { EndRequest } from "../middleware/LoopControl.ts"
import * as ResultText from "./ResultText.ts"

/** Outcome of `before_tool`. */
type BeforeOutcome =
  | { readonly _tag: "Goes"; readonly args: ToolArguments }
  /** The call is not run; `output` is its result. */
  | {
      readonly _tag: "Ended"
      readonly status: ToolStatus
      readonly output: string
      readonly end?: EndRequest | undefined
    }

const buildToolInput = (
  run: RunFacts,
  { annotations, apiRequestId, toolCallId, toolName }: ToolCallContext,
  toolInput: ToolArguments
): BeforeToolInput => ({
  run,
  toolName,
  toolCallId,
  annotations,
  toolInput: Frozen.makeView(toolInput),
  parallelExecutionId: apiRequestId
})

type TextRules = Pick<ResultText.Rules, "foreign">

const renderOutput = (output: unknown, { foreign }: TextRules): Effect.Effect<string> =>
  Effect.map(
    RedactSecrets,
    (redact) => ResultText.renderResult({ output, isFailure: false }, { foreign, redact }).output
  )

const refuseCall = (message: string): BeforeOutcome => ({
  _tag: "Ended",
  status: "blocked",
  output: JSON.stringify({ error: message })
})

/** Reports a failed policy on stderr as well. */
const reportPhaseFailure = (error: PhaseFailure): Effect.Effect<void> =>
  error instanceof ExecutionBlocked ? Effect.void : Effect.logWarning(error.message)

/** Calls the `before_tool` methods, from first to last. */
export const runBeforeTool = (
  lifecycle: LifecycleStack,
  context: ToolCallContext,
  args: ToolArguments,
  rules: TextRules
): Effect.Effect<BeforeOutcome> =>
  lifecycle
    .run("beforeTool", context, (run, { toolInput = args }) => buildToolInput(run, context, toolInput))
    .pipe(
      Effect.flatMap(({ fields: { toolInput = args }, stopped }): Effect.Effect<BeforeOutcome, PhaseFailure> => {
        if (stopped === undefined) return Effect.succeed({ _tag: "Goes", args: toolInput })
        if (stopped._tag === "Denied") return Effect.succeed(refuseCall(stopped.reason))
        return Effect.map(
          runAfterTool(lifecycle, context, toolInput, { raw: stopped.result, isError: false }, rules),
          ({ end, output }): BeforeOutcome => ({ _tag: "Ended", status: "ok", output, end })
        )
      }),
      Effect.catch((error) =>
        Effect.as(
          reportPhaseFailure(error),
          refuseCall(error instanceof ExecutionBlocked ? error.reason : error.message)
        )
      )
    )

/** Result of a call that ended. */
interface EndedCall {
  readonly raw: unknown
  /** Text for the model if it differs from the rendering of `raw`. */
  readonly llm?: string | undefined
  readonly isError: boolean
}

interface AfterToolOutcome {
  readonly output: string
  readonly isChanged: boolean
  readonly end?: EndRequest | undefined
}

const toEndRequest = (control: Changes["control"], output: string): EndRequest | undefined =>
  control === undefined
    ? undefined
    : control.result._tag === "EndWith"
      ? { by: control.by, text: control.result.answer, isNew: true }
      : { by: control.by, text: output, isNew: false }

/**
 * Calls the `after_tool` methods, from last to first, and returns the text for the model. An explicit text takes
 * precedence over a changed result.
 */
const runAfterTool = Effect.fnUntraced(function* (
  lifecycle: LifecycleStack,
  context: ToolCallContext,
  args: ToolArguments,
  { isError, llm, raw }: EndedCall,
  rules: TextRules
): Effect.fn.Return<AfterToolOutcome, PhaseFailure> {
  const { control, fields } = yield* lifecycle.run("afterTool", context, (run, fields): AfterToolInput => ({
    ...buildToolInput(run, context, args),
    toolOutput: Frozen.makeView("toolOutput" in fields ? fields.toolOutput : raw),
    llmToolOutput: Frozen.makeView(
      "llmToolOutput" in fields ? fields.llmToolOutput : "toolOutput" in fields ? undefined : llm
    ),
    isError
  }))
  const isChanged = "toolOutput" in fields || "llmToolOutput" in fields
  const text =
    "llmToolOutput" in fields ? fields.llmToolOutput : "toolOutput" in fields ? fields.toolOutput : (llm ?? raw)
  const output = yield* renderOutput(text, rules)
  return { output, isChanged, end: toEndRequest(control, output) }
})

/** Applies {@link runAfterTool} to a call that has run. A failed policy or a veto replaces the result of the call. */
export const applyAfterTool = (
  lifecycle: LifecycleStack,
  context: ToolCallContext,
  args: ToolArguments,
  ended: EndedCall,
  rules: TextRules
): Effect.Effect<AfterToolOutcome & { readonly isRefused: boolean }> =>
  runAfterTool(lifecycle, context, args, ended, rules).pipe(
    Effect.map((changed) => ({ ...changed, isRefused: false })),
    Effect.catch((error) =>
      Effect.as(reportPhaseFailure(error), {
        output: JSON.stringify({ error: error instanceof ExecutionBlocked ? error.reason : error.message }),
        isChanged: true,
        isRefused: true
      })
    )
  )
