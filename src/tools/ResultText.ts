/**
 * Text of a tool result for the model: the same text that the store and the listeners get, well-formed, without control
 * characters, without secrets, marked if it looks like an instruction from outside, and within bounds.
 *
 * **Details**
 *
 * It is made once, when the call ends, so that all receivers see the same bytes. Structured results are cleaned value
 * by value before they become JSON, because rules cannot see text that is escaped twice. A finding in a result from the
 * web or from a server becomes a `warning` field of an object, so that it remains JSON for scripts, or a line before
 * any other text.
 *
 * Text that is longer than its bound is stored in a file that the model can page through, and replaced by a preview. If
 * a file cannot be written, only the preview with a note about the missing text remains. The limit of one result is set
 * by the tool, else 100 000 characters; `read_file` has no limit, since it reads the stored files. All results of one
 * batch together have a budget of 200 000: the largest that are not stored yet are stored until the rest fits. Small
 * context windows scale both down.
 *
 * **Gotchas**
 *
 * Files and images among {@link ToolOutput.modelOutput} pass as they are, and results that are more than text are not
 * bounded. A file is written as the text is given: {@link boundResult} takes text that {@link renderResult} has made.
 *
 * **Example** (What a small window allows)
 *
 * ```ts
 * import { ResultText } from "hermes-effect/tools"
 *
 * const { perResult, perTurn } = ResultText.computeLimits(32_000)
 *
 * console.log(perResult < ResultText.defaultLimits.perResult, perTurn >= perResult)
 * // => true true
 * console.log(ResultText.takePreview("line\n".repeat(10_000)).length < 10_000)
 * // => true
 * ```
 *
 * **Example** (Long results in a folder of the application)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Agent, Runtime } from "hermes-effect"
 * import { ResultText } from "hermes-effect/tools"
 *
 * const results = ResultText.layerFile("results").pipe(Layer.provide(NodeServices.layer))
 * const program = Agent.run({ prompt: "Reply exactly hello" }).pipe(Effect.provide([Runtime.layer(), results]))
 *
 * console.log((await Effect.runPromise(program)).text)
 * // => hello
 * ```
 *
 * Source: `hermes-llm.md` §19.1, §19.4, §19.9, §19.11, `ARCHITECTURE.md` §7 (redaction).
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import * as Prompt from "effect/ai/Prompt"
import * as Json from "../base/domain/Json.ts"
import * as Redaction from "../base/domain/Redaction.ts"
import * as TextHygiene from "../base/domain/TextHygiene.ts"
import type { ToolOutput } from "../base/domain/ToolOutput.ts"
import type { ToolFacts } from "./Annotations.ts"
import * as Injection from "../base/domain/Injection.ts"
import * as TextCut from "../base/domain/TextCut.ts"

const normalizeText = (text: string): string => TextHygiene.withoutControls(TextHygiene.toWellFormed(text))

const maxDepth = 64

/** The strings of a value, for reading them as a model would. */
const collectStrings = (value: unknown, out: Array<string> = [], depth = 0): ReadonlyArray<string> => {
  if (typeof value === "string") out.push(value)
  else if (typeof value === "object" && value !== null && depth < maxDepth) {
    for (const item of Object.values(value)) collectStrings(item, out, depth + 1)
  }
  return out
}

/** A value with a warning, when its text wants to command the model. */
const addWarning = (value: unknown): unknown => {
  const warning = Injection.findForeignWarning(collectStrings(value).join("\n"))
  if (warning === undefined) return value
  return Predicate.isObject(value) && !Object.hasOwn(value, "warning")
    ? { warning, ...value }
    : `${warning}\n${Json.toText(value)}`
}

/** Text of a tool result: the one text that the model, the store and the listeners get. */
interface RenderedResult {
  readonly output: string
  readonly modelOutput: ToolOutput["modelOutput"]
}

/** Rules for the texts of a tool's results. */
export interface Rules extends Pick<ToolFacts, "foreign"> {
  /** Value of `Redaction.RedactSecrets`. */
  readonly redact: boolean
}

/** One text by the rules. */
export const cleanText = (given: string, { foreign, redact }: Rules): string => {
  const cleaned = normalizeText(given)
  const safe = redact ? Redaction.redactText(cleaned) : cleaned
  if (!foreign) return safe
  const warning = Injection.findForeignWarning(safe)
  return warning === undefined ? safe : `${warning}\n${safe}`
}

/** A result is cut as text, if at all. */
const whole: Redaction.Bounds = { depth: Json.maxDepth, nodes: Number.POSITIVE_INFINITY }

/** Text of a tool result: the one text that the model, the store and the listeners get. */
export const renderResult = ({ modelOutput, output }: ToolOutput, rules: Rules): RenderedResult => {
  const parts = modelOutput?.map((part) =>
    part.type === "text" ? Prompt.textPart({ text: cleanText(part.text, rules), options: part.options }) : part
  )
  if (typeof output === "string") return { output: cleanText(output, rules), modelOutput: parts }
  const cleaned = Json.toPlainData(output, normalizeText)
  const safe = rules.redact ? Redaction.redactValue(cleaned, whole) : cleaned
  return { output: Json.toText(rules.foreign ? addWarning(safe) : safe), modelOutput: parts }
}

/** Renders a tool's progress report as text. */
export const renderProgress = (output: unknown, redact: boolean): string =>
  renderResult({ output, isFailure: false }, { foreign: false, redact }).output

/** Characters. */
export interface Limits {
  readonly perResult: number
  readonly perTurn: number
}

/** Without a known window. */
export const defaultLimits: Limits = { perResult: 100_000, perTurn: 200_000 }

/** For results that no model sees. */
export const unlimited: Limits = { perResult: Number.POSITIVE_INFINITY, perTurn: Number.POSITIVE_INFINITY }

const charsPerToken = 4

/** Limits that fit a window of so many tokens: 15 % of it for one result, 30 % for a batch, within bounds. */
export const computeLimits = (windowTokens: number | undefined): Limits => {
  if (windowTokens === undefined) return defaultLimits
  const scaleLimit = (share: number, floor: number, most: number): number =>
    Math.min(most, Math.max(floor, Math.floor(windowTokens * charsPerToken * share)))
  return {
    perResult: scaleLimit(0.15, 8_000, defaultLimits.perResult),
    perTurn: scaleLimit(0.3, 16_000, defaultLimits.perTurn)
  }
}

/** Tools whose results are never stored in a file, because they would have to read that file again. */
const pinned = new Set(["read_file"])

/** The limit of a tool's results; `stated` is what its annotation says. */
export const resolveLimit = (tool: string, stated: number | undefined, limits: Limits): number =>
  pinned.has(tool) || limits.perResult === unlimited.perResult
    ? Number.POSITIVE_INFINITY
    : Math.min(stated ?? limits.perResult, limits.perResult)

/** Location of stored texts on this machine. */
export interface StoredTexts {
  /** Absolute, as it is named and as it really is. */
  readonly directories: ReadonlyArray<string>
  readonly files: FileSystem.FileSystem
}

/** The port that stores a text and returns an absolute path that `read_file` can read. */
export interface Keeper {
  readonly keep: (callId: string, text: string) => Effect.Effect<string, unknown>
  /**
   * Location that `read_file` reads on this machine, regardless of the tools' environment; undefined if nothing is
   * stored.
   */
  readonly kept?: Effect.Effect<StoredTexts | undefined> | undefined
}

/** See {@link Keeper}. By default, nothing is stored. */
export const ResultKeeper = Context.Reference<Keeper>("hermes-effect/tool/ResultKeeper", {
  defaultValue: () => ({ keep: () => Effect.fail("results are not kept in this runtime") })
})

/** A result as it came. */
export interface Result {
  readonly callId: string
  readonly tool: string
  readonly text: string
  /** Characters that the tool's annotation allows. */
  readonly bound?: number | undefined
  /** True when there is more than text in it, such as an image. */
  readonly multimodal?: boolean | undefined
}

const previewChars = 1_500

/** Returns the beginning of a text, up to a line end if that preserves more than half. */
export const takePreview = (text: string): string => {
  const head = TextCut.takeHead(text, previewChars)
  const line = head.lastIndexOf("\n")
  return head.length < text.length && line > previewChars / 2 ? head.slice(0, line) : head
}

const formatSize = (chars: number): string => `${chars} characters`

const renderStoredNotice = (text: string, path: string): string =>
  [
    "<persisted-output>",
    `This result is too long to show (${formatSize(text.length)}). All of it was saved to: ${path}`,
    "Read the parts that you need with read_file (offset and limit), or search it with search_files.",
    "",
    "Preview:",
    takePreview(text),
    "…",
    "</persisted-output>"
  ].join("\n")

const renderCutNotice = (text: string): string =>
  `${takePreview(text)}\n\n[Truncated: the result has ${formatSize(text.length)} and could not be saved. Ask ` +
  "for less: a narrower query, a range, a filter.]"

const storeLongResult = (result: Result): Effect.Effect<string> =>
  Effect.flatMap(ResultKeeper, ({ keep }) => keep(result.callId, result.text)).pipe(
    Effect.map((path) => renderStoredNotice(result.text, path)),
    Effect.catch((error) =>
      Effect.as(
        Effect.logWarning(`the result of ${result.tool} could not be saved, so it is cut`, error),
        renderCutNotice(result.text)
      )
    )
  )

/** True when a result is one that the budget of a batch may send to a file. */
export const isMovable = (result: Result): boolean => result.multimodal !== true && !pinned.has(result.tool)

/** One result within its limit; the text itself when it fits. */
export const boundResult = (result: Result, limits: Limits = defaultLimits): Effect.Effect<string> =>
  result.multimodal === true || result.text.length <= resolveLimit(result.tool, result.bound, limits)
    ? Effect.succeed(result.text)
    : storeLongResult(result)

/** Texts for the results of a batch, each within its limit and all within the budget, in the same order. */
export const boundAll = Effect.fn("Bounds.boundAll")(function* (
  results: ReadonlyArray<Result>,
  limits: Limits = defaultLimits
): Effect.fn.Return<ReadonlyArray<string>> {
  const texts = yield* Effect.forEach(results, (result) => boundResult(result, limits))
  let total = texts.reduce((sum, text) => sum + text.length, 0)
  if (total <= limits.perTurn) return texts
  const out = [...texts]
  const largest = results
    .map((result, index) => ({ result, index }))
    .filter(({ index, result }) => isMovable(result) && texts[index] === result.text)
    .toSorted((one, other) => other.result.text.length - one.result.text.length)
  for (const { index, result } of largest) {
    if (total <= limits.perTurn || result.text.length <= previewChars) break
    const text = yield* storeLongResult(result)
    total += text.length - result.text.length
    out[index] = text
  }
  return out
})

// A keeper that writes long results to files, readable only by the user, each named after its call.

/** Returns a file name without path characters. */
const toFileName = (callId: string): string => {
  const safe = callId.replace(/[^\w-]/g, "_").slice(-100)
  return `${safe === "" ? "result" : safe}.txt`
}

/** Maximum number of stored results with one name. */
const maxSameName = 1_000

/** Length of time for which a stored result can be read. */
const keptFor = Duration.days(7)

/**
 * A result in lines: the fields of an object one below the other, their texts with line ends. Any other text as it is.
 */
const toLines = (text: string): string => {
  const value = text.startsWith("{") ? Option.getOrUndefined(Json.parse(text)) : undefined
  if (!Predicate.isObject(value)) return text
  return Object.entries(value)
    .map(([name, field]: readonly [string, unknown]) =>
      typeof field === "string" && field.includes("\n")
        ? `${name}:\n${field}`
        : `${name}: ${typeof field === "string" ? field : Json.toText(field)}`
    )
    .join("\n")
}

/** A keeper for a directory, which is created when needed. Results older than a week are removed then. */
const makeFileKeeper = (directory: string): Effect.Effect<Keeper, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const root = path.resolve(directory)

    const removeOld = (name: string) =>
      Effect.gen(function* () {
        const file = path.join(root, name)
        const { mtime } = yield* fs.stat(file)
        const now = yield* Clock.currentTimeMillis
        if (Option.isSome(mtime) && now - mtime.value.getTime() > Duration.toMillis(keptFor)) yield* fs.remove(file)
      })
    // An interrupt must not become what is remembered.
    const prepare = yield* Effect.cached(
      Effect.uninterruptible(
        Effect.gen(function* () {
          yield* fs.makeDirectory(root, { recursive: true, mode: 0o700 })
          const names = yield* fs.readDirectory(root)
          // Another process may be removing the same ones.
          yield* Effect.forEach(
            names,
            (name) => Effect.catch(removeOld(name), (error) => Effect.logDebug(error.message)),
            { discard: true }
          )
        })
      )
    )

    /** Never over another result: ids are unique in an answer, and not in a home directory. */
    const write = (callId: string, text: string, count: number): Effect.Effect<string, PlatformError> => {
      const file = path.join(root, toFileName(count === 1 ? callId : `${callId}-${count}`))
      return Effect.as(fs.writeFileString(file, text, { mode: 0o600, flag: "wx" }), file).pipe(
        Effect.catchIf(
          ({ reason }) => reason._tag === "AlreadyExists" && count < maxSameName,
          () => write(callId, text, count + 1)
        )
      )
    }
    const place = yield* Effect.cached(
      Effect.map(
        Effect.orElseSucceed(fs.realPath(root), () => root),
        (real): StoredTexts => ({ directories: [...new Set([root, real])], files: fs })
      )
    )
    const isThere = Effect.orElseSucceed(fs.exists(root), () => false)
    return {
      keep: (callId, text) => Effect.andThen(prepare, write(callId, toLines(text), 1)),
      // Another program may have stored a result that a resumed conversation names.
      kept: Effect.flatMap(isThere, (there) => (there ? place : Effect.undefined))
    }
  })

/** A keeper for a directory. Results older than a week are removed with the first result. */
export const layerFile = (directory: string): Layer.Layer<never, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(ResultKeeper, makeFileKeeper(directory))

/** Stores results in a temporary directory, which is created for the first result and removed with the scope. */
export const layerTemporary: Layer.Layer<never, never, FileSystem.FileSystem | Path.Path> = Layer.effect(
  ResultKeeper,
  Effect.gen(function* () {
    const services = yield* Effect.context<FileSystem.FileSystem | Path.Path | Scope.Scope>()
    let isMade = false
    // Uses only this context: otherwise, the directory would be tied to the scope of the first run that needs it.
    const keeper = yield* Effect.cached(
      Effect.uninterruptible(
        Effect.gen(function* () {
          const fs = yield* FileSystem.FileSystem
          return yield* makeFileKeeper(yield* fs.makeTempDirectoryScoped({ prefix: "hermes-results-" }))
        }).pipe(Effect.updateContext((_: Context.Context<never>) => services))
      )
    )
    return {
      keep: (callId, text) =>
        Effect.flatMap(
          Effect.tap(keeper, () => Effect.sync(() => (isMade = true))),
          ({ keep }) => keep(callId, text)
        ),
      kept: Effect.suspend(() =>
        isMade ? Effect.flatMap(Effect.orDie(keeper), ({ kept = Effect.undefined }) => kept) : Effect.undefined
      )
    }
  })
)
