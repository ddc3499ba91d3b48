/**
 * The tool `read_file`, which returns a window of numbered lines of a text file.
 *
 * **Details**
 *
 * The file is streamed, so a window of a huge file needs no more memory than a window of a small one. If the
 * conversation already contains the unchanged window, the result is a stub instead of the text. After two stubs, it is
 * an error. The third identical request in a row returns a warning, and the fourth is refused; see {@link FileState}.
 * Reads on behalf of a script, a plugin or another program always return the text.
 *
 * Notebooks and XML office documents (`.docx`, `.xlsx`, `.pptx`) are shown as extracted text. Old binary office
 * documents, OpenDocument and PDF are refused as binary.
 *
 * Source: `hermes-product.md` §2.3.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Hash from "effect/Hash"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import { RedactSecrets } from "../../base/domain/Redaction.ts"
import { findClosest, similarity } from "../../base/domain/Similarity.ts"
import { ConversationHistory, ToolContext } from "../ToolContext.ts"
import { FileLimits } from "./BuiltinSettings.ts"
import { FileState, toStamp } from "./file/FileState.ts"
import * as DocumentText from "./file/DocumentText.ts"
import * as FileContent from "./file/FileContent.ts"
import { readFile } from "./file/FileToolDefinitions.ts"
import * as Problem from "./file/Problem.ts"
import { type Target, Targets } from "./file/Fence.ts"

const defaultLimit = 500
/** Maximum size in bytes of a document (notebook, office) that is read as a whole to extract its text. */
const maxDocument = 20 * 1024 * 1024

/** The tool `read_file`. */
export const tool = readFile

/** Reads a window of lines, from the bytes of a file or from the text extracted from it. */
const readWindow = Effect.fnUntraced(function* (target: Target, options: FileContent.WindowOptions) {
  const reader = FileContent.makeLineReader(options)
  const name = target.path.toLowerCase()
  const text = name.endsWith(".ipynb")
    ? Option.getOrUndefined(
        DocumentText.renderNotebook(
          new TextDecoder().decode(yield* FileContent.readWhole(target.real, target.given, maxDocument))
        )
      )
    : DocumentText.isDocument(name)
      ? yield* DocumentText.extract(name, yield* FileContent.readWhole(target.real, target.given, maxDocument))
      : undefined
  if (text !== undefined) {
    reader.push(new TextEncoder().encode(text))
    return reader.end()
  }
  let kind: string | undefined
  let first = true
  yield* FileContent.forEachPiece(target.real, (bytes) => {
    if (first) kind = FileContent.classifyBytes(bytes)
    first = false
    if (kind === undefined) reader.push(bytes)
    return kind === undefined
  })
  return kind === undefined ? reader.end() : yield* refuseKind(target, kind)
})

const refuseKind = ({ given }: Target, kind: string) =>
  Problem.fail(`${given} is ${kind} and cannot be read as text`, {
    hint:
      kind === "an image"
        ? "Use vision_analyze to look at an image."
        : kind === "a private key"
          ? "Credentials are not read."
          : "Use a command line tool that understands it, in the terminal."
  })

const removeExtension = (name: string): string => name.replace(/(?<!^)\.[^.]*$/, "")

/**
 * Returns the similarity of two file names, from 0 to 1. Considers edits, a different suffix, and one name within the
 * other.
 */
const computeFileLikeness = (wanted: string, name: string): number => {
  if (wanted === name) return 1
  if (removeExtension(wanted) === removeExtension(name)) return 0.95
  const contained = wanted.length >= 3 && (name.includes(wanted) || (wanted.includes(name) && name.length >= 3))
  return Math.max(similarity(wanted, name), contained ? 0.7 : 0)
}

/** Fails for a missing file, with similar names from its directory. */
const failMissingFile = Effect.fnUntraced(function* ({ given, path }: Target) {
  const fs = yield* FileSystem.FileSystem
  const { basename, dirname } = yield* Path.Path
  const names = yield* Effect.orElseSucceed(fs.readDirectory(dirname(path)), () => undefined)
  if (names === undefined) {
    return yield* Problem.fail(`no such file: ${given} (its directory does not exist)`, {
      hint: 'Find it with search_files and target "files".'
    })
  }
  const prefix = given.slice(0, given.length - basename(given).length)
  const similar = findClosest(
    basename(path),
    names.toSorted((a, b) => a.localeCompare(b)),
    5,
    computeFileLikeness
  ).map((name) => prefix + name)
  return yield* Problem.fail(
    `no such file: ${given}`,
    similar.length === 0 ? { hint: 'Find it with search_files and target "files".' } : { similar_files: similar }
  )
})

const renderHint = (
  window: FileContent.LineWindow,
  { offset, limit, maxLineChars }: FileContent.WindowOptions
): string | undefined => {
  const last = offset + window.shown - 1
  const hints = [
    window.totalLines === 0 ? "The file is empty." : undefined,
    last < window.totalLines && window.shown > 0
      ? `Lines ${offset} to ${last} of ${window.totalLines}. Continue with offset ${last + 1} and limit ${limit}.`
      : undefined,
    window.cut.length > 0
      ? `Cut at ${maxLineChars} characters: line ${window.cut.slice(0, 10).join(", ")}.`
      : undefined,
    window.invalid ? "Bytes that are not UTF-8 are shown as \uFFFD." : undefined
  ].filter((hint) => hint !== undefined)
  return hints.length === 0 ? undefined : hints.join(" ")
}

/** Returns a warning from the third identical request in a row on. */
const renderRepeatWarning = (times: number): { readonly warning?: string } =>
  times < 3
    ? {}
    : {
        warning:
          "This is the third identical read in a row. The next one is refused: use what you have, or do something else."
      }

/** Services of the toolset. */
interface ReadServices {
  readonly fs: FileSystem.FileSystem
  readonly path: Path.Path
  readonly targets: Targets["Service"]
  readonly state: FileState["Service"]
}

type ReadTarget = Effect.Success<ReturnType<Targets["Service"]["resolve"]>>
type FileWindow = Effect.Success<ReturnType<typeof readWindow>>

/** Reads the attributes of a file. Fails for anything else, and for files whose content is not text. */
const statFile = Effect.fnUntraced(function* ({ fs, path }: ReadServices, target: ReadTarget) {
  const info = yield* Effect.catchIf(
    fs.stat(target.real),
    (error) => error.reason._tag === "NotFound",
    () => failMissingFile(target)
  )
  if (info.type === "Directory") {
    return yield* Problem.fail(`${target.given} is a directory`, {
      hint: 'List it with search_files, target "files" and pattern "*".'
    })
  }
  if (info.type !== "File") return yield* Problem.fail(`${target.given} is not a regular file (${info.type})`)
  const known = FileContent.classifyFileName(path.basename(target.path))
  return known === undefined ? info : yield* refuseKind(target, known)
})

/** Fails if lines cannot be shown: they are too long together, or beyond the end of the file. */
const checkWindow = (
  { given }: ReadTarget,
  { limit, maxChars, offset }: FileContent.WindowOptions,
  window: FileWindow,
  facts: { readonly total_lines: number; readonly file_size: number }
) => {
  if (window.overflow) {
    return Problem.fail(`lines ${offset} to ${offset + limit - 1} of ${given} are more than ${maxChars} characters`, {
      hint: `Ask for a smaller window: offset, and limit ${Math.max(1, window.shown >> 1)} or less.`,
      ...facts
    })
  }
  return window.shown === 0 && window.totalLines > 0
    ? Problem.fail(`offset ${offset} is beyond the end of ${given}, which has ${window.totalLines} lines`, facts)
    : Effect.void
}

/** Counts how often the conversation already has these lines unchanged. Fails after the second time. */
const countStubs = Effect.fnUntraced(function* (
  { state }: ReadServices,
  target: ReadTarget,
  request: string,
  stamp: ReturnType<typeof toStamp>,
  content: string
) {
  const { sessionId } = yield* ToolContext
  const holds = yield* ConversationHistory
  if (holds === undefined) return 0
  yield* state.saw(sessionId, target.real, stamp)
  const reading = { window: request, stamp, content: Hash.string(content) }
  const stubs = yield* state.given(sessionId, reading, () => holds(JSON.stringify(content)))
  return stubs <= 2
    ? stubs
    : yield* Problem.fail(`${target.given} has not changed since you read these lines, as you were told twice`, {
        hint: "Use the text that you have, or read other lines."
      })
})

/** Counts how often the same lines were asked for in a row, including this time. Fails after the third time. */
const countRequests = Effect.fnUntraced(function* ({ state }: ReadServices, target: ReadTarget, request: string) {
  const { sessionId } = yield* ToolContext
  const times =
    (yield* ConversationHistory) === undefined ? 1 : yield* state.repeated(sessionId, `read_file:${request}`)
  return times <= 3
    ? times
    : yield* Problem.fail(`refused: the same lines of ${target.given} were asked for ${times} times in a row`, {
        hint: "Use the text that you have, or go on with another step."
      })
})

/** Creates the handler from the services of the toolset. */
export const make = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const services: ReadServices = { fs, path, targets: yield* Targets, state: yield* FileState }
  return Effect.fnUntraced(
    function* (params: typeof tool.parametersSchema.Type) {
      const { chars, lineChars, lines } = yield* FileLimits
      const target = yield* services.targets.resolve(params.path, "read")
      const options: FileContent.WindowOptions = {
        offset: Math.max(1, params.offset ?? 1),
        limit: Math.min(lines, params.limit ?? defaultLimit),
        maxChars: chars,
        maxLineChars: lineChars,
        redact: yield* RedactSecrets
      }
      const request = `${options.offset}:${options.limit}:${target.real}`
      const times = yield* countRequests(services, target, request)
      const info = yield* statFile(services, target)
      const window = yield* readWindow(target, options)
      const facts = { total_lines: window.totalLines, file_size: Number(info.size) }
      yield* checkWindow(target, options, window, facts)
      if ((yield* countStubs(services, target, request, toStamp(info), window.content)) > 0) {
        return {
          status: "unchanged" as const,
          path: target.given,
          message: "These lines have not changed since you read them: use the text that you have.",
          dedup: true as const,
          content_returned: false as const,
          ...renderRepeatWarning(times)
        }
      }
      const hint = renderHint(window, options)
      return {
        content: window.content,
        ...facts,
        truncated: options.offset + window.shown - 1 < window.totalLines || window.cut.length > 0,
        ...(hint === undefined ? {} : { hint }),
        ...renderRepeatWarning(times)
      }
    },
    Effect.provideService(FileSystem.FileSystem, fs),
    Effect.provideService(Path.Path, path),
    Problem.mapToFailure
  )
})
