/**
 * Facts about a tool that drive scheduling, approval and trimming, in addition to the `Readonly`, `Destructive`,
 * `Idempotent` and `OpenWorld` of `effect/ai` `Tool`. A fact counts only if it was stated: effect's defaults
 * (`Destructive` true, `Readonly` false) say nothing about a tool without annotations.
 *
 * **Example** (What a tool of your own should say)
 *
 * ```ts
 * import * as Context from "effect/Context"
 * import * as Schema from "effect/Schema"
 * import type * as Effect from "effect/Effect"
 * import * as Tool from "effect/ai/Tool"
 * import { Annotations } from "hermes-effect"
 *
 * const Format = Tool.make("format", { parameters: Schema.Struct({ file: Schema.String }), success: Schema.String })
 *   .annotate(Tool.Idempotent, true)
 *   .annotateMerge(Context.make(Annotations.PathArguments, ["file"]))
 *
 * console.log(Annotations.readFacts(Format).pathArguments)
 * // => [ 'file' ]
 * ```
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Tool from "effect/ai/Tool"

/** Names of the arguments that hold file paths; calls whose paths do not overlap may run side by side. */
export class PathArguments extends Context.Service<PathArguments, ReadonlyArray<string>>()(
  "hermes-effect/tool/PathArguments"
) {}

/**
 * Names of the arguments that hold shell commands; they are judged before they run, regardless of who allowed the call.
 */
export class CommandArguments extends Context.Service<CommandArguments, ReadonlyArray<string>>()(
  "hermes-effect/tool/CommandArguments"
) {}

/** Names of the arguments that hold what is typed into a program that runs, which may be a shell. */
export class InputArguments extends Context.Service<InputArguments, ReadonlyArray<string>>()(
  "hermes-effect/tool/InputArguments"
) {}

/**
 * The tool itself says which of its calls need an approval, by `needsApproval` or because its commands are judged; that
 * it is destructive asks for none.
 */
export class OwnApproval extends Context.Service<OwnApproval, boolean>()("hermes-effect/tool/OwnApproval") {}

/** The server of the tool claims that it only reads, which does not count: the user did not trust the server. */
export class ClaimedReadonly extends Context.Service<ClaimedReadonly, boolean>()(
  "hermes-effect/tool/ClaimedReadonly"
) {}

/** Advice to the user on avoiding further questions about the tool; follows the reason of a question. */
export class ApprovalRemedy extends Context.Service<ApprovalRemedy, string>()("hermes-effect/tool/ApprovalRemedy") {}

/** The tool talks to the user, or otherwise must never share a batch. */
export class Interactive extends Context.Service<Interactive, boolean>()("hermes-effect/tool/Interactive") {}

/** Characters of a result that reach the model at most. */
export class ResultBound extends Context.Service<ResultBound, number>()("hermes-effect/tool/ResultBound") {}

/**
 * Longest time that a call of the tool may take; `Duration.infinity` for a tool that bounds itself. Five minutes when
 * absent.
 */
export class Timeout extends Context.Service<Timeout, Duration.Input>()("hermes-effect/tool/Timeout") {}

/** True when the tool can be used at the moment; one that cannot is not offered. */
export class Available extends Context.Service<Available, Effect.Effect<boolean, unknown>>()(
  "hermes-effect/tool/Available"
) {}

/** Facts that the runtime has about a tool; `undefined` if not stated. */
export interface ToolFacts {
  readonly readonly: boolean | undefined
  readonly destructive: boolean | undefined
  readonly idempotent: boolean | undefined
  /** Its results come from outside, from the web or from a server: they are data, regardless of their content. */
  readonly foreign: boolean
  readonly interactive: boolean
  readonly ownApproval: boolean
  readonly claimedReadonly?: boolean | undefined
  readonly approvalRemedy?: string | undefined
  readonly pathArguments: ReadonlyArray<string>
  readonly commandArguments: ReadonlyArray<string>
  readonly inputArguments: ReadonlyArray<string>
  readonly resultBound: number | undefined
  /** Longest time of a call; absent if not stated. */
  readonly timeout?: Duration.Duration | undefined
  /** Absent for one that always can. */
  readonly available: Effect.Effect<boolean, unknown> | undefined
}

const readTimeout = (tool: Tool.Any): Duration.Duration | undefined => {
  const stated = Context.getOrUndefined(tool.annotations, Timeout)
  return stated === undefined ? undefined : Duration.fromInputUnsafe(stated)
}

/** The facts that were stated on a tool. */
export const readFacts = (tool: Tool.Any): ToolFacts => ({
  readonly: Context.getOrUndefined(tool.annotations, Tool.Readonly),
  destructive: Context.getOrUndefined(tool.annotations, Tool.Destructive),
  idempotent: Context.getOrUndefined(tool.annotations, Tool.Idempotent),
  foreign: Context.getOrUndefined(tool.annotations, Tool.OpenWorld) ?? false,
  interactive: Context.getOrUndefined(tool.annotations, Interactive) ?? false,
  ownApproval: Context.getOrUndefined(tool.annotations, OwnApproval) ?? false,
  claimedReadonly: Context.getOrUndefined(tool.annotations, ClaimedReadonly),
  approvalRemedy: Context.getOrUndefined(tool.annotations, ApprovalRemedy),
  pathArguments: Context.getOrUndefined(tool.annotations, PathArguments) ?? [],
  commandArguments: Context.getOrUndefined(tool.annotations, CommandArguments) ?? [],
  inputArguments: Context.getOrUndefined(tool.annotations, InputArguments) ?? [],
  resultBound: Context.getOrUndefined(tool.annotations, ResultBound),
  timeout: readTimeout(tool),
  available: Context.getOrUndefined(tool.annotations, Available)
})
