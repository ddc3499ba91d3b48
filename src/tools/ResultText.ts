/**
 * Creates the text of a tool result for the model, the store and the listeners: well-formed, limited in length, without
 * control characters or secrets, and with a warning if it resembles instructions from outside.
 *
 * **Details**
 *
 * The text is created once, when the call ends, so that all receivers see the same bytes. Structured results are
 * cleaned value by value before they are encoded as JSON, because the rules cannot see doubly escaped text. If a result
 * from the web or from a server looks like an instruction, an object gets a `warning` field, so that it remains JSON
 * for scripts, and any other text gets a warning line before it.
 *
 * Text that is longer than its bound is stored in a file that the model can page through, and replaced by a preview. If
 * a file cannot be written, only the preview with a note about the missing text remains. The tool sets the limit of one
 * result; the default is 100 000 characters. `read_file` has no limit, since it reads the stored files. All results of
 * one batch share a budget of 200 000 characters: the largest results are stored in files until the rest fits. Both
 * limits are smaller for small context windows. Small context windows scale both down.
 *
 * **Gotchas**
 *
 * Files and images among {@link ToolOutput.modelOutput} are passed through unchanged, and results that contain more
 * than text have no limit. {@link boundResult} does not clean its text; pass it text created by {@link renderResult}.
 *
 * **Example** (Limits for a small context window)
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
import { locateCurrentFolder } from "../store/TenantFolder.ts"

/** Replaces or removes the characters that no model and no store should receive. Treats each character on its own. */
export const normalizeText = (text: string): string => TextHygiene.withoutControls(TextHygiene.toWellFormed(text))

const maxDepth = 64

/** Collects the strings of a value as a model would read them. */
export const collectStrings = (value: unknown, out: Array<string> = [], depth = 0): ReadonlyArray<string> => {
  if (typeof value === "string") out.push(value)
  else if (typeof value === "object" && value !== null && depth < maxDepth) {
    for (const item of Object.values(value)) collectStrings(item, out, depth + 1)
  }
  return out
}

/** Adds a warning to a value, if there is one. */
export const addWarning = (value: unknown, warning: string | undefined): unknown => {
  if (warning === undefined) return value
  return Predicate.isObject(value) && !Object.hasOwn(value, "warning")
    ? { warning, ...value }
    : `${warning}\n${Json.toText(value)}`
}

/** Text of a tool result for the model, the store and the listeners. */
export interface RenderedResult {
  readonly output: string
  /** Value that the text represents; `undefined` if a warning was added to it, or if it is a description. */
  readonly value: unknown
  /** Result as returned by the tool, or its description. */
  readonly raw: unknown
  readonly modelOutput: ToolOutput["modelOutput"]
}

/** Rules for the texts of a tool's results. */
export interface Rules extends Pick<ToolFacts, "foreign"> {
  /** Value of `Redaction.RedactSecrets`. */
  readonly redact: boolean
}

/** Cleans a text according to the rules. */
export const cleanText = (given: string, { foreign, redact }: Rules): string => {
  const cleaned = normalizeText(given)
  const safe = redact ? Redaction.redactText(cleaned) : cleaned
  if (!foreign) return safe
  const warning = Injection.findForeignWarning(safe)
  return warning === undefined ? safe : `${warning}\n${safe}`
}

/** Bounds that cut no structure: a result is shortened only after it is rendered as text. */
export const whole: Redaction.Bounds = { depth: Json.maxDepth, nodes: Number.POSITIVE_INFINITY }

/** Maximum number of characters of a result beside its images and files. A longer result contains their data. */
const longestBesideFiles = 20_000

/** Describes the images and files of a result in words. */
const describeFiles = (parts: ReadonlyArray<Prompt.ToolModelOutputPart>): string =>
  parts
    .map((part) =>
      part.type === "text" ? part.text : `[${part.mediaType}${part.fileName === undefined ? "" : ` ${part.fileName}`}]`
    )
    .join("\n")

/**
 * Renders a tool result as the text for the model, the store and the listeners. A result that contains the data of its
 * images and files is replaced by a description.
 */
export const renderResult = ({ modelOutput, output }: ToolOutput, rules: Rules): RenderedResult => {
  const description = describeLongFiles({ modelOutput, output })
  if (description === undefined) return { ...renderOutput({ modelOutput, output }, rules), raw: output }
  const described = renderOutput({ modelOutput, output: description }, rules)
  return { ...described, value: undefined, raw: described.output }
}

/** Returns the description that replaces a result with the data of its images and files, or `undefined`. */
export const describeLongFiles = ({
  modelOutput,
  output
}: Pick<ToolOutput, "modelOutput" | "output">): string | undefined =>
  modelOutput?.some(({ type }) => type === "file") === true && Json.toText(output).length > longestBesideFiles
    ? describeFiles(modelOutput)
    : undefined

const renderOutput = (
  { modelOutput, output }: Omit<ToolOutput, "isFailure">,
  rules: Rules
): Omit<RenderedResult, "raw"> => {
  const parts = modelOutput?.map((part) =>
    part.type === "text" ? Prompt.textPart({ text: cleanText(part.text, rules), options: part.options }) : part
  )
  if (typeof output === "string") {
    const text = cleanText(output, rules)
    return { output: text, value: text, modelOutput: parts }
  }
  const cleaned = Json.toPlainData(output, normalizeText)
  const safe = rules.redact ? Redaction.redactValue(cleaned, whole) : cleaned
  const warned = rules.foreign ? addWarning(safe, Injection.findForeignWarning(collectStrings(safe).join("\n"))) : safe
  return { output: Json.toText(warned), value: warned === safe ? safe : undefined, modelOutput: parts }
}

/** Renders a tool's progress report as text. */
export const renderProgress = (output: unknown, redact: boolean): string =>
  renderResult({ output, isFailure: false }, { foreign: false, redact }).output

/** Limits on results, in characters. */
export interface Limits {
  readonly perResult: number
  readonly perTurn: number
}

/** Limits used if the size of the context window is unknown. */
export const defaultLimits: Limits = { perResult: 100_000, perTurn: 200_000 }

/** Limits for results that no model sees. */
export const unlimited: Limits = { perResult: Number.POSITIVE_INFINITY, perTurn: Number.POSITIVE_INFINITY }

const charsPerToken = 4

/**
 * Computes limits for a context window of a given number of tokens: 15 % of it for one result and 30 % for a batch,
 * within fixed bounds.
 */
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

/** Returns the limit of a tool's results; `stated` is the limit from its annotation. */
export const resolveLimit = (tool: string, stated: number | undefined, limits: Limits): number =>
  pinned.has(tool) || limits.perResult === unlimited.perResult
    ? Number.POSITIVE_INFINITY
    : Math.min(stated ?? limits.perResult, limits.perResult)

/** Location of stored texts on this machine. */
export interface StoredTexts {
  /** Absolute paths of the directory, as configured and with symbolic links resolved. */
  readonly directories: ReadonlyArray<string>
  readonly files: FileSystem.FileSystem
}

/** The port that stores a text and returns an absolute path that `read_file` can read. */
export interface Keeper {
  readonly keep: (callId: string, text: string) => Effect.Effect<string, unknown>
  /**
   * Location of the stored texts, which `read_file` reads on this machine regardless of the tools' environment;
   * `undefined` if nothing is stored.
   */
  readonly kept?: Effect.Effect<StoredTexts | undefined> | undefined
}

/** Current {@link Keeper}. By default, nothing is stored. */
export const ResultKeeper = Context.Reference<Keeper>("hermes-effect/tool/ResultKeeper", {
  defaultValue: () => ({ keep: () => Effect.fail("results are not kept in this runtime") })
})

/** A result before its limit is applied. */
export interface Result {
  readonly callId: string
  readonly tool: string
  readonly text: string
  /** Maximum number of characters that the tool's annotation allows. */
  readonly bound?: number | undefined
}

const previewChars = 1_500

/** Returns the beginning of a text, cut at a line end if that preserves more than half of it. */
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

/** Returns true if a result may be moved to a file to meet the budget of a batch. */
export const isMovable = (result: Result): boolean => !pinned.has(result.tool)

/** Limits the text of one result. Returns the text unchanged if it fits. */
export const boundResult = (result: Result, limits: Limits = defaultLimits): Effect.Effect<string> =>
  result.text.length <= resolveLimit(result.tool, result.bound, limits)
    ? Effect.succeed(result.text)
    : storeLongResult(result)

/**
 * Limits the results of a batch, each to its own limit and all to the budget. Returns their texts in the same order.
 */
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

/** Time for which a stored result can be read. */
const keptFor = Duration.days(7)

/**
 * Formats a result as lines: the fields of an object, one below the other, with real line breaks in their texts. Any
 * other text is unchanged.
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

/**
 * Creates a keeper for a directory. Work for a tenant stores its results in the tenant's own folder below the
 * directory, and reads no others.
 */
const makeFileKeeper = (directory: string): Effect.Effect<Keeper, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const paths = yield* Path.Path
    const context = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
    const root = paths.resolve(directory)
    const shared = yield* makeFolderKeeper(root)
    const getKeeper = Effect.flatMap(locateCurrentFolder(paths, root), (folder) =>
      folder === root ? Effect.succeed(shared) : Effect.provideContext(makeFolderKeeper(folder), context)
    )
    return {
      keep: (callId, text) => Effect.flatMap(getKeeper, ({ keep }) => keep(callId, text)),
      kept: Effect.flatMap(getKeeper, ({ kept = Effect.undefined }) => kept)
    }
  })

/**
 * Creates a keeper for one folder. The folder is created when it is first needed, and results older than a week are
 * removed then.
 */
const makeFolderKeeper = (directory: string): Effect.Effect<Keeper, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const root = path.resolve(directory)

    const removeOld = (name: string) =>
      Effect.gen(function* () {
        const file = path.join(root, name)
        const { mtime, type } = yield* fs.stat(file)
        const now = yield* Clock.currentTimeMillis
        if (type === "File" && Option.isSome(mtime) && now - mtime.value.getTime() > Duration.toMillis(keptFor))
          yield* fs.remove(file)
      })
    // An interruption must not become the cached result.
    const prepare = yield* Effect.cached(
      Effect.uninterruptible(
        Effect.gen(function* () {
          yield* fs.makeDirectory(root, { recursive: true, mode: 0o700 })
          const names = yield* fs.readDirectory(root)
          // Another process may be removing the same results.
          yield* Effect.forEach(
            names,
            (name) => Effect.catch(removeOld(name), (error) => Effect.logDebug(error.message)),
            { discard: true }
          )
        })
      )
    )

    /** Never overwrites another result: call ids are unique within an answer but not within a home directory. */
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
      // A resumed conversation may refer to a result that another program stored.
      kept: Effect.flatMap(isThere, (there) => (there ? place : Effect.undefined))
    }
  })

/** Provides a keeper for a directory. Results older than a week are removed when the first result is stored. */
export const layerFile = (directory: string): Layer.Layer<never, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(ResultKeeper, makeFileKeeper(directory))

/** Stores results in a temporary directory, which is created for the first result and removed with the scope. */
export const layerTemporary: Layer.Layer<never, never, FileSystem.FileSystem | Path.Path> = Layer.effect(
  ResultKeeper,
  Effect.gen(function* () {
    const services = yield* Effect.context<FileSystem.FileSystem | Path.Path | Scope.Scope>()
    let isMade = false
    // The effect uses only this context. Otherwise the directory would belong to the scope of the first run that needs
    // it.
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
