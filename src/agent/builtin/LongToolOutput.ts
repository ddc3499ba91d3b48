/**
 * Cuts tool results that are longer than a threshold, stores the whole result in a file, and adds the path of that file
 * to the text for the model.
 *
 * **Details**
 *
 * | parameter | default | |
 * | --- | --- | --- |
 * | `maxOutputChars` | 10000 | a longer result is cut |
 * | `headLines`, `tailLines` | 50, 30 | lines that are retained from its start and its end |
 * | `tempDir` | `/tmp/nexau_tool_outputs` | directory of the files; null cuts without storing a file |
 * | `bypassToolNames` | none | tools whose results are never cut, in addition to `LoadSkill` |
 * | `headChars`, `tailChars` | 5000, 5000 | characters that are retained if lines are too long |
 *
 * The middleware checks the text for the model if another middleware has set it, else the result of the tool. In an
 * object the text field `content`, or else `result`, is cut and the other fields stay. An object without either becomes
 * `{ content }`. Images are not changed. The size of the result is always limited: by lines if they are short enough,
 * or else by characters, also when `headChars` and `tailChars` are 0. The defaults of `headChars` and `tailChars` are
 * reduced so that both fit into `maxOutputChars`.
 *
 * Files hold the redacted text, are named by tool, call, time and a random part, and can be read by their owner only.
 * If the file cannot be written within 10 s, the result is cut and contains a note about the failure.
 *
 * **Example** (As in the lifecycle document)
 *
 * ```ts
 * import { LongToolOutput } from "hermes-effect/middleware"
 *
 * export const cut = LongToolOutput.make({
 *   maxOutputChars: 10000,
 *   headLines: 50,
 *   tailLines: 30,
 *   tempDir: "/tmp/nexau_tool_outputs",
 *   bypassToolNames: ["execute_bash"]
 * })
 * ```
 *
 * Source: the lifecycle document, `nexau.md` §3.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as Ids from "../../base/domain/Ids.ts"
import * as IsolatedCall from "../../base/domain/IsolatedCall.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as ChildProcesses from "../../base/platform/ChildProcesses.ts"
import * as Parameters from "./Parameters.ts"

const Options = Schema.Struct({
  maxOutputChars: Schema.optional(Parameters.Positive),
  headLines: Schema.optional(Parameters.NotNegative),
  tailLines: Schema.optional(Parameters.NotNegative),
  headChars: Schema.optional(Parameters.NotNegative),
  tailChars: Schema.optional(Parameters.NotNegative),
  tempDir: Schema.optional(Schema.NullOr(Schema.String)),
  bypassToolNames: Schema.optional(Schema.NullOr(Schema.Array(Schema.String)))
})

/** Options of the middleware; see the table above. */
export type Options = typeof Options.Type

/** Limits of a shortened text. */
interface Bounds {
  readonly maxOutputChars: number
  readonly headLines: number
  readonly tailLines: number
  readonly headChars: number
  readonly tailChars: number
}

const resolveBounds = ({
  headChars,
  headLines = 50,
  maxOutputChars = 10_000,
  tailChars,
  tailLines = 30
}: Options): Bounds => {
  const half = Math.floor(maxOutputChars / 2)
  return {
    maxOutputChars,
    headLines,
    tailLines,
    headChars: headChars ?? Math.min(5_000, tailChars === undefined ? half : Math.max(0, maxOutputChars - tailChars)),
    tailChars: tailChars ?? Math.min(5_000, headChars === undefined ? half : Math.max(0, maxOutputChars - headChars))
  }
}

/** Splits a string into lines that include their line breaks. */
const splitLines = (text: string): ReadonlyArray<string> =>
  text.match(/[^\n\v\f\r\u0085\u2028\u2029]*(?:\r\n|[\n\v\f\r\u0085\u2028\u2029])|[^\n\v\f\r\u0085\u2028\u2029]+$/g) ??
  []

const renderGap = (count: number, unit: string): string => `\n... [${count} ${unit} omitted] ...\n`

const cutByLines = (text: string, { headLines, tailLines }: Bounds): string | undefined => {
  if (headLines + tailLines === 0) return undefined
  const lines = splitLines(text)
  const omitted = lines.length - headLines - tailLines
  if (omitted <= 0) return text
  return (
    lines.slice(0, headLines).join("") + renderGap(omitted, "lines") + lines.slice(lines.length - tailLines).join("")
  )
}

const cutByChars = (text: string, head: number, tail: number): string | undefined => {
  if (head + tail === 0) return undefined
  if (text.length <= head + tail) return text
  const start = TextCut.takeHead(text, head)
  const end = tail === 0 ? "" : TextCut.takeTail(text, tail)
  return start + renderGap(text.length - start.length - end.length, "characters") + end
}

/**
 * Cuts text by lines and by characters. Returns the longer of the results that are within the limit, or the shorter
 * result if neither is within it.
 */
const cutText = (text: string, bounds: Bounds): string => {
  const { headChars, headLines, maxOutputChars, tailChars, tailLines } = bounds
  const candidates = [cutByLines(text, bounds), cutByChars(text, headChars, tailChars)].flatMap((one) =>
    one === undefined || one.length >= text.length ? [] : [one]
  )
  const within = candidates.filter(({ length }) => length < maxOutputChars)
  if (within.length > 0) return within.reduce((a, b) => (b.length > a.length ? b : a))
  const shortest = candidates.reduce<string | undefined>(
    (a, b) => (a === undefined || b.length < a.length ? b : a),
    undefined
  )
  // The separator may exceed the limit, but a line that is too long may not.
  if (shortest !== undefined && shortest.length <= maxOutputChars + 100) return shortest
  const heads = headLines + tailLines + headChars + tailChars === 0 || headLines + headChars > 0
  return TextCut.cutMiddle(text, maxOutputChars, heads ? 0.6 : 0)
}

const isPicture = (value: unknown): boolean =>
  Predicate.isObject(value) &&
  !Array.isArray(value) &&
  (value["type"] === "image" || value["type"] === "input_image") &&
  ["url", "image_url", "base64", "data"].some((key) => value[key] !== undefined)

const hasPicture = (value: unknown): boolean => {
  if (Array.isArray(value)) return value.some(isPicture)
  if (isPicture(value)) return true
  return (
    Predicate.isObject(value) &&
    ["content", "result"].some(
      (key) => isPicture(value[key]) || (Array.isArray(value[key]) && value[key].some(isPicture))
    )
  )
}

const renderSubject = (subject: unknown): string => {
  if (typeof subject === "string") return subject
  const shown =
    Predicate.isObject(subject) && !Array.isArray(subject)
      ? Object.fromEntries(Object.entries(subject).filter(([key]) => key !== "returnDisplay"))
      : subject
  try {
    return JSON.stringify(shown, undefined, 2) ?? String(shown)
  } catch {
    return String(shown)
  }
}

const toSafeName = (text: string): string => text.replaceAll(/[^A-Za-z0-9.-]/g, "_").slice(0, 80)

/** Writes the whole text and returns the path of its file. */
const saveText = (directory: string, tool: string, callId: string, text: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const millis = yield* Clock.currentTimeMillis
    const file = path.join(
      directory,
      `${toSafeName(tool)}_${toSafeName(callId.slice(-8))}_${millis}_${yield* Ids.makeHex(6)}.txt`
    )
    yield* fs.makeDirectory(directory, { recursive: true, mode: 0o700 })
    yield* fs.writeFileString(file, Redaction.redactText(text), { flag: "wx", mode: 0o600 })
    return file
  }).pipe(Effect.provide(ChildProcesses.layerDefault()))

/** Time limit for writing a file. It is within the deadline of the middleware, so that the result is always cut. */
const saveDeadline = Duration.seconds(10)

/** Time for which nothing is saved after a directory did not answer, so that each result is not delayed again. */
const pause = Duration.minutes(5)

/** Saves texts in a directory. A text that cannot be saved in time is one warning, and `undefined` is its path. */
const makeSaver = (directory: string) => {
  let pausedUntil = 0
  return Effect.fnUntraced(function* (tool: string, callId: string, text: string) {
    const now = yield* Clock.currentTimeMillis
    if (now < pausedUntil) return undefined
    const exit = yield* IsolatedCall.attemptInterruptibly(saveText(directory, tool, callId, text), saveDeadline)
    if (exit === undefined) pausedUntil = now + Duration.toMillis(pause)
    else if (Exit.isSuccess(exit)) return exit.value
    const why =
      exit === undefined
        ? `it took longer than ${Duration.format(saveDeadline)}`
        : IsolatedCall.describeFailure(exit.cause)
    yield* Effect.logWarning(`The whole result of ${tool} could not be saved in ${directory}: ${why}`)
    return undefined
  })
}

const renderHint = (text: string, saved: { readonly wanted: boolean; readonly path: string | undefined }): string => {
  const lineCount = text.split("\n").length
  const size = `${text.length.toLocaleString("en-US")} characters, about ${lineCount.toLocaleString("en-US")} lines`
  const where =
    saved.path !== undefined
      ? ` The whole output is in ${saved.path}: read it with your file tool when you need the rest.`
      : saved.wanted
        ? " The whole output could not be saved."
        : ""
  return `\n\n[LongToolOutput: the output was truncated. In all: ${size}.${where}]`
}

const buildMiddleware = (options: Options): Middleware.LifecycleMiddleware => {
  const bounds = resolveBounds(options)
  const bypass = new Set(["LoadSkill", ...(options.bypassToolNames ?? [])])
  const directory = options.tempDir === undefined ? "/tmp/nexau_tool_outputs" : options.tempDir
  const save = directory === null ? undefined : makeSaver(directory)
  return Middleware.lifecycle({
    name: "LongToolOutput",
    afterTool: ({ llmToolOutput, toolCallId, toolName, toolOutput }) => {
      if (bypass.has(toolName)) return Middleware.noChanges
      const isLlm = llmToolOutput !== undefined
      const subject = isLlm ? llmToolOutput : toolOutput
      if (hasPicture(subject)) return Middleware.noChanges
      const whole = renderSubject(subject)
      if (whole.length <= bounds.maxOutputChars) return Middleware.noChanges
      const object = Predicate.isObject(subject) && !Array.isArray(subject) ? subject : undefined
      const key =
        object === undefined ? undefined : ["content", "result"].find((name) => typeof object[name] === "string")
      const text = object === undefined || key === undefined ? whole : String(object[key])
      return Effect.map(save === undefined ? Effect.succeed(undefined) : save(toolName, toolCallId, whole), (path) => {
        // Secrets are redacted before the cut, because a partial secret cannot be recognised.
        const safe = Redaction.redactText(text)
        const short =
          (safe.length > bounds.maxOutputChars ? cutText(safe, bounds) : safe) +
          renderHint(text, { wanted: save !== undefined, path })
        const made = object === undefined ? short : key === undefined ? { content: short } : { ...object, [key]: short }
        return isLlm
          ? Middleware.withModifications({ llmToolOutput: made })
          : Middleware.withModifications({ toolOutput: made })
      })
    }
  })
}

/** Creates the middleware from unvalidated parameters. */
export const fromUnknown = (parameters: unknown): Result.Result<Middleware.LifecycleMiddleware, ConfigError> =>
  Result.flatMap(Parameters.read("long-tool-output", Options, parameters), (options) => {
    const { headChars, maxOutputChars, tailChars } = resolveBounds(options)
    return headChars + tailChars <= maxOutputChars
      ? Result.succeed(buildMiddleware(options))
      : Result.fail(
          new ConfigError({
            path: "long-tool-output.headChars",
            message:
              `long-tool-output: head_chars and tail_chars are ${headChars + tailChars} together, ` +
              `more than max_output_chars (${maxOutputChars}): lower them`
          })
        )
  })

/** Creates the middleware. Throws a `ConfigError` if a parameter is invalid. */
export const make = (options: Options = {}): Middleware.LifecycleMiddleware => Result.getOrThrow(fromUnknown(options))
