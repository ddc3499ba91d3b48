/**
 * The details of a finished run: its tool calls, its messages, the files that the model produced, the sources that it
 * cites, and the usage of each step.
 *
 * **Details**
 *
 * The details are computed from the conversation of the run when they are read, and hold no copies of its messages.
 * They are not part of the JSON of a result: `JSON.stringify` and copies by `{ ...result }` leave them out, so that
 * results can be stored and sent at their usual size. A conversation that was compacted during the run contains only
 * the newest messages of the run, and so do its details; the others are in the session store.
 *
 * **Example** (The calls of a run)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Schema from "effect/Schema"
 * import * as Tool from "effect/ai/Tool"
 * import * as Toolkit from "effect/ai/Toolkit"
 * import { Agent, Runtime, Scripted, Toolset } from "hermes-effect"
 * import type { RunDetails } from "hermes-effect/agent"
 *
 * const Double = Tool.make("double", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.Finite })
 * const toolkit = Toolkit.make(Double)
 * const maths = Toolset.make("maths", toolkit, toolkit.toLayer({ double: ({ n }) => Effect.succeed(n * 2) }))
 *
 * const model = Scripted.layer([
 *   Scripted.complete({ toolCalls: [{ name: "double", params: { n: 21 } }] }),
 *   Scripted.complete("It is 42.")
 * ])
 * const program = Agent.run({ prompt: "Double 21." }).pipe(
 *   Effect.provide(Runtime.layer({ provider: model, tools: [maths] }))
 * )
 *
 * const { calls }: RunDetails.RunDetails = await Effect.runPromise(program)
 * console.log(calls.map(({ name, params, result }) => [name, params, result]))
 * // => [ [ 'double', { n: 21 }, 42 ] ]
 * ```
 */
import * as Option from "effect/Option"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import type { Spent } from "./Cost.ts"
import * as Json from "./Json.ts"
import type { ConvertedValue } from "./AnswerFormat.ts"
import type { AnswerSource } from "./ModelCall.ts"
import type { RunResult, ToolStatus } from "./RunEvent.ts"
import type { ToolContent } from "./ToolContent.ts"
import type { Usage } from "./Usage.ts"

/** JSON of a value. Parts that are not JSON themselves, such as dates, are `unknown`; `ToolContent` is a text. */
export type JsonOf<A> = A extends ConvertedValue
  ? unknown
  : A extends ToolContent
    ? string
    : A extends ReadonlyArray<infer Item>
      ? ReadonlyArray<JsonOf<Item>>
      : A extends object
        ? { readonly [Key in keyof A]: JsonOf<A[Key]> }
        : A

interface CallBase<out Name extends string> {
  readonly id: string
  readonly name: Name
  /** Result as the model received it, without images and files. */
  readonly output: string
}

/** A tool call that succeeded. */
export interface SucceededCall<
  out Name extends string = string,
  out Params = unknown,
  out Result = unknown
> extends CallBase<Name> {
  readonly status: "ok"
  readonly isFailure: false
  /** Arguments of the call, as JSON. */
  readonly params: Params
  /**
   * Value of the result, as JSON of the tool's success schema. Absent if the model received another text, because the
   * result was too long or was changed by a hook or by middleware.
   */
  readonly result: Result | undefined
}

/** A tool call whose result was an error for the model. */
export interface FailedCall<out Name extends string = string> extends CallBase<Name> {
  /** `blocked` is a call that was denied, and `cancelled` one that was interrupted. */
  readonly status: Exclude<ToolStatus, "ok">
  readonly isFailure: true
  /** Arguments as the model wrote them: the parsed JSON, or the text if it is not JSON. */
  readonly params: unknown
  readonly result: undefined
}

/** A tool call of a run, with its result. */
export type RunCall<Name extends string = string, Params = unknown, Result = unknown> =
  | SucceededCall<Name, Params, Result>
  | FailedCall<Name>

/** A file that the model produced in an answer. */
export interface AnswerFile {
  readonly mediaType: string
  /** Bytes, base64 text or an address. */
  readonly data: Prompt.FilePart["data"]
  readonly fileName: string | undefined
}

/** Usage of one answer of the model. */
export interface StepUsage {
  /** Number of the step, from 1. A step whose answer was requested again has several entries. */
  readonly step: number
  readonly provider: string
  readonly model: string
  readonly usage: Usage
  readonly cost: Spent
  readonly finishReason: Response.FinishReason
}

/** Details of a finished run. `Call` is the type of its tool calls. */
export interface RunDetails<out Call = RunCall> {
  /** Tool calls of the model in their order, each with its result. */
  readonly calls: ReadonlyArray<Call>
  /** Messages that the run added to the conversation, beginning with the user's. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Files that the model produced in its answers. */
  readonly files: ReadonlyArray<AnswerFile>
  /** Pages and documents that the answers cite, each once. */
  readonly sources: ReadonlyArray<AnswerSource>
  /** Usage, cost and finish reason of each answer, without side tasks and child agents. */
  readonly stepUsage: ReadonlyArray<StepUsage>
}

/** Facts about the end of a tool call that its message does not contain. */
export interface CallEnd {
  readonly status: ToolStatus
  /** Form of the result at the beginning of the text that the model received; `other` if the text is not the result. */
  readonly form: "json" | "text" | "other"
  /** Length of the result in the text, in characters. */
  readonly length: number
}

/** Parts of a run from which its details are computed. */
export interface RunParts {
  /** Messages of the run, as they were sent. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Sent messages that the session does not store, with the stored message that each one replaces. */
  readonly unstored: ReadonlyMap<Prompt.Message, Prompt.Message | undefined>
  /** Ends of the calls, by their result. */
  readonly ends: ReadonlyMap<Prompt.Message, CallEnd>
  readonly stepUsage: ReadonlyArray<StepUsage>
  /** Sources of all answers, in their order. */
  readonly sources: ReadonlyArray<AnswerSource>
}

const listSources = ({ sources }: RunParts): ReadonlyArray<AnswerSource> =>
  Array.from(new Map(sources.map((source) => [JSON.stringify(source), source])).values())

const listMessages = ({ messages, unstored }: RunParts): ReadonlyArray<Prompt.Message> =>
  unstored.size === 0
    ? messages
    : messages.flatMap((message) => (unstored.has(message) ? (unstored.get(message) ?? []) : [message]))

/** Returns the value of a result from the text that the model received. */
const readResult = (output: string, end: CallEnd | undefined): unknown => {
  if (end === undefined || end.form === "other") return undefined
  const text = output.slice(0, end.length)
  return end.form === "text" ? text : Option.getOrUndefined(Json.parse(text))
}

const toRunCall = (
  { id, name, params }: Prompt.ToolCallPart,
  result: Prompt.ToolResultPart | undefined,
  end: CallEnd | undefined
): RunCall => {
  const call = {
    id,
    name,
    params: typeof params === "string" ? Json.parseOrKeep(params) : params,
    output: result === undefined ? "" : Json.toText(result.result)
  }
  if (result?.isFailure === false)
    return { ...call, status: "ok", isFailure: false, result: readResult(call.output, end) }
  const status = end === undefined || end.status === "ok" ? (result === undefined ? "cancelled" : "error") : end.status
  return { ...call, status, isFailure: true, result: undefined }
}

const listCalls = ({ ends, messages }: RunParts): ReadonlyArray<RunCall> =>
  messages.flatMap((message, index) => {
    if (message.role !== "assistant") return []
    const calls = message.content.filter(
      (part): part is Prompt.ToolCallPart => part.type === "tool-call" && !part.providerExecuted
    )
    if (calls.length === 0) return []
    // The results of an answer come before the next answer, whose calls may have the same ids.
    const next = messages.findIndex(({ role }, at) => at > index && role === "assistant")
    const answers = messages.slice(index + 1, next === -1 ? undefined : next)
    return calls.map((call) => {
      for (const answer of answers) {
        if (answer.role !== "tool") continue
        const result = answer.content.find(
          (part): part is Prompt.ToolResultPart => part.type === "tool-result" && part.id === call.id
        )
        if (result !== undefined) return toRunCall(call, result, ends.get(answer))
      }
      return toRunCall(call, undefined, undefined)
    })
  })

const listFiles = ({ messages }: RunParts): ReadonlyArray<AnswerFile> =>
  messages.flatMap(({ content, role }) =>
    role === "assistant"
      ? content.flatMap((part) =>
          part.type === "file" ? [{ mediaType: part.mediaType, data: part.data, fileName: part.fileName }] : []
        )
      : []
  )

/** Defines a property that is computed when it is read first, and that copies and JSON leave out. */
const makeProperty = <A>(compute: () => A): PropertyDescriptor => {
  let known: { readonly value: A } | undefined
  return { get: () => (known ??= { value: compute() }).value, configurable: true, enumerable: false }
}

/** Adds the details of its run to a result. */
export const addDetails = <Result extends RunResult>(result: Result, run: RunParts): Result & RunDetails => {
  Object.defineProperties(result, {
    calls: makeProperty(() => listCalls(run)),
    messages: makeProperty(() => listMessages(run)),
    files: makeProperty(() => listFiles(run)),
    sources: makeProperty(() => listSources(run)),
    stepUsage: makeProperty(() => run.stepUsage)
  })
  // The properties were defined above.
  return result as Result & RunDetails
}

const presented = new WeakSet<RunResult>()

/** Presents the messages of a result in another form when they are read. Does nothing for a result without details. */
export const presentMessages = (
  result: RunResult & Partial<RunDetails>,
  present: (messages: ReadonlyArray<Prompt.Message>) => unknown
): void => {
  const { get } = Object.getOwnPropertyDescriptor(result, "messages") ?? {}
  if (get === undefined || presented.has(result)) return
  presented.add(result)
  Object.defineProperty(
    result,
    "messages",
    makeProperty(() => present(get()))
  )
}
