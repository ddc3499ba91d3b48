/**
 * Facts about a tool that drive scheduling, approval and trimming, in addition to the `Readonly`, `Destructive`,
 * `Idempotent` and `OpenWorld` of `effect/ai` `Tool`. A fact counts only if it was stated: effect's defaults
 * (`Destructive` true, `Readonly` false) say nothing about a tool without annotations.
 *
 * **Example** (Annotating a custom tool)
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
import type { ToolAnnotations } from "../middleware/Kind.ts"

/** Names of the arguments that hold file paths. Calls whose paths do not overlap may run in parallel. */
export class PathArguments extends Context.Service<PathArguments, ReadonlyArray<string>>()(
  "hermes-effect/tool/PathArguments"
) {}

/**
 * Names of the arguments that hold shell commands. These commands are judged before they run, even if the call itself
 * was allowed.
 */
export class CommandArguments extends Context.Service<CommandArguments, ReadonlyArray<string>>()(
  "hermes-effect/tool/CommandArguments"
) {}

/** Names of the arguments that hold input for a running program, which may be a shell. */
export class InputArguments extends Context.Service<InputArguments, ReadonlyArray<string>>()(
  "hermes-effect/tool/InputArguments"
) {}

/**
 * True if the tool runs programs in the environment. In the work for a tenant with a workspace, such a tool fails unless
 * the environment confines its programs.
 */
export class RunsPrograms extends Context.Service<RunsPrograms, boolean>()("hermes-effect/tool/RunsPrograms") {}

/**
 * True if the tool itself decides which of its calls need an approval, with `needsApproval` or because its commands are
 * judged. Being destructive does not make such a tool ask.
 */
export class OwnApproval extends Context.Service<OwnApproval, boolean>()("hermes-effect/tool/OwnApproval") {}

/**
 * True if the tool's server claims that the tool is read-only. The claim has no effect because the user did not trust
 * the server.
 */
export class ClaimedReadonly extends Context.Service<ClaimedReadonly, boolean>()(
  "hermes-effect/tool/ClaimedReadonly"
) {}

/** Advice to the user on how to avoid further questions about the tool. It is shown after the reason for a question. */
export class ApprovalRemedy extends Context.Service<ApprovalRemedy, string>()("hermes-effect/tool/ApprovalRemedy") {}

/** True if the tool interacts with the user, or must not run in parallel with other calls for another reason. */
export class Interactive extends Context.Service<Interactive, boolean>()("hermes-effect/tool/Interactive") {}

/** Maximum length of a result for the model, in characters. */
export class ResultBound extends Context.Service<ResultBound, number>()("hermes-effect/tool/ResultBound") {}

/**
 * Maximum duration of a call of the tool. The default is five minutes; use `Duration.infinity` for a tool that limits
 * its own duration.
 */
export class Timeout extends Context.Service<Timeout, Duration.Input>()("hermes-effect/tool/Timeout") {}

/** Effect that returns true if the tool can currently be used. An unavailable tool is not offered to the model. */
export class Available extends Context.Service<Available, Effect.Effect<boolean, unknown>>()(
  "hermes-effect/tool/Available"
) {}

/** Facts that the runtime has about a tool; `undefined` if not stated. */
export interface ToolFacts {
  readonly readonly: boolean | undefined
  readonly destructive: boolean | undefined
  readonly idempotent: boolean | undefined
  /**
   * True if results come from outside, for example from the web or from a server. They are treated as data, regardless
   * of their content.
   */
  readonly foreign: boolean
  readonly interactive: boolean
  readonly ownApproval: boolean
  readonly claimedReadonly?: boolean | undefined
  readonly approvalRemedy?: string | undefined
  readonly pathArguments: ReadonlyArray<string>
  readonly commandArguments: ReadonlyArray<string>
  readonly inputArguments: ReadonlyArray<string>
  readonly resultBound: number | undefined
  /** Maximum duration of a call; `undefined` if not stated. */
  readonly timeout?: Duration.Duration | undefined
  /** Check that the tool can be used; `undefined` if the tool is always available. */
  readonly available: Effect.Effect<boolean, unknown> | undefined
}

const readTimeout = (tool: Tool.Any): Duration.Duration | undefined => {
  const stated = Context.getOrUndefined(tool.annotations, Timeout)
  return stated === undefined ? undefined : Duration.fromInputUnsafe(stated)
}

/** Returns the facts stated in a tool's annotations. */
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

/** Annotations of tools, by their facts. The annotations of one tool are one value. */
const statedAnnotations = new WeakMap<ToolFacts, ToolAnnotations>()

const noAnnotations: ToolAnnotations = Object.freeze({})

/** Returns the facts that are stated about a tool, in the form that middleware receives; none for an unknown tool. */
export const toStated = (facts: ToolFacts | undefined): ToolAnnotations => {
  if (facts === undefined) return noAnnotations
  const known = statedAnnotations.get(facts)
  if (known !== undefined) return known
  const { destructive, foreign, idempotent, readonly } = facts
  const made = Object.freeze({
    ...(readonly === undefined ? {} : { readonly }),
    ...(destructive === undefined ? {} : { destructive }),
    ...(idempotent === undefined ? {} : { idempotent }),
    ...(foreign ? { openWorld: true } : {})
  })
  statedAnnotations.set(facts, made)
  return made
}
