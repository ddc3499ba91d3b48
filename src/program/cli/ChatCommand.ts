/**
 * `hermes chat`, and `hermes` without a command: reads the prompt, then decides between one query and a conversation.
 *
 * The prompt is taken verbatim from the command line, a file or stdin, and may have an image attached. If a run has a
 * query, piped input is appended to it as `<stdin>` … `</stdin>`; without a query, the piped input is the query. The
 * first byte must arrive within 15 s from a pipe and within 3 s from a socket, because a parent process may never close
 * them. After that, the run continues without the input and prints a note. Text from a file or from stdin has at most 1
 * MiB.
 *
 * Source: `hermes-product.md` §1.2.
 */
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import * as Prompt from "effect/ai/Prompt"
import * as Command from "effect/cli/Command"
import type { RunInput } from "../../agent/RunInput.ts"
import * as Offline from "../../models/provider/Offline.ts"
import * as PathProblem from "../../base/domain/PathProblem.ts"
import { Failure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { imageTypes } from "./interactive/Attachments.ts"
import { hermes } from "./Hermes.ts"
import { printNote, Output } from "./ProgramOutput.ts"
import type { ChatFlags } from "./RunOptions.ts"

const describeError = (error: PlatformError): string => {
  switch (error.reason._tag) {
    case "NotFound":
      return "file not found"
    case "PermissionDenied":
      return "permission denied"
    default:
      return PathProblem.describeReason(error)
  }
}

const toReadFailure =
  (flag: string, path: string) =>
  (error: Failure | PlatformError): Failure =>
    error._tag === "Failure" ? error : makeUsageFailure(`cannot read ${flag} ${path}: ${describeError(error)}`)

/** Maximum size of text read from a file or from stdin, in bytes. */
const maxBytes = 1_048_576

const makeSizeFailure = (what: string): Failure =>
  makeUsageFailure(`${what} is larger than 1 MiB. Save it in a file and name the file in the prompt.`)

/** Collects all text of a stream. `begun` is completed when the first bytes arrive. */
const collectText = <E, R>(
  stream: Stream.Stream<Uint8Array, E, R>,
  what: string,
  begun: Effect.Effect<unknown> = Effect.void
): Effect.Effect<string, E | Failure, R> =>
  Effect.suspend(() => {
    let bytes = 0
    return stream.pipe(
      Stream.mapEffect((chunk) => {
        bytes += chunk.length
        return bytes > maxBytes ? Effect.fail(makeSizeFailure(what)) : Effect.as(begun, chunk)
      }),
      Stream.decodeText,
      Stream.mkString
    )
  })

/** Reads all text of stdin, at most 1 MiB. `begun` is completed when the first bytes arrive. */
export const readStdin = (
  begun?: Effect.Effect<unknown>
): Effect.Effect<string, Failure | PlatformError, Stdio.Stdio> =>
  Effect.flatMap(Stdio.Stdio, (stdio) => collectText(stdio.stdin, "stdin", begun))

const readTextFile = (
  path: string
): Effect.Effect<string, Failure | PlatformError, FileSystem.FileSystem | Stdio.Stdio> =>
  path === "-" ? readStdin() : Effect.flatMap(FileSystem.FileSystem, (fs) => collectText(fs.stream(path), path))

const patienceSeconds = { file: 15, pipe: 15, socket: 3 } as const

/**
 * Reads the input piped into the run; returns `undefined` if there is no piped input or if stdin is already used for
 * the query.
 */
const readPipedInput = Effect.fnUntraced(function* ({
  queryFile
}: Pick<Flags.Chat, "queryFile">): Effect.fn.Return<string | undefined, Failure, Output | Stdio.Stdio> {
  const {
    terminal: { piped: kind }
  } = yield* Output
  if (kind === undefined || queryFile === "-") return undefined
  const seconds = patienceSeconds[kind]
  const begun = yield* Deferred.make<void>()
  const silence = Effect.flatMap(Effect.timeoutOption(Deferred.await(begun), Duration.seconds(seconds)), (first) =>
    Option.isSome(first)
      ? Effect.never
      : Effect.as(
          printNote(`Nothing arrived on stdin for ${seconds} s; continuing without it. To skip the wait: < /dev/null`),
          ""
        )
  )
  const text = yield* Effect.raceFirst(readStdin(Deferred.succeed(begun, undefined)), silence).pipe(
    Effect.mapError((error) =>
      error._tag === "Failure" ? error : makeUsageFailure(`cannot read stdin: ${describeError(error)}`)
    )
  )
  return text.trim() === "" ? undefined : text
})

const appendInput = (query: string | undefined, input: string | undefined): string | undefined =>
  query === undefined || input === undefined
    ? (query ?? input)
    : `${query}\n\n<stdin>\n${input}${input.endsWith("\n") ? "" : "\n"}</stdin>`

const readImage = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const mediaType = imageTypes[paths.extname(path).toLowerCase()]
  if (mediaType === undefined) {
    return yield* makeUsageFailure(`unsupported image type of --image ${path}: use PNG, JPEG, GIF or WebP`)
  }
  const data = yield* Effect.mapError(fs.readFile(path), toReadFailure("--image", path))
  const Vision = yield* Effect.promise(() => import("../../tools/builtin/Vision.ts"))
  if (Vision.detectMediaType(data) === undefined)
    return yield* makeUsageFailure(`--image ${path} is not a PNG, JPEG, GIF or WebP image, despite its name`)
  return Prompt.filePart({ mediaType, data, fileName: paths.basename(path) })
})

/** Reads the prompt. Returns `undefined` if no query was given. `input` is the result of {@link readPipedInput}. */
const readPrompt = Effect.fnUntraced(function* (
  flags: Pick<Flags.Chat, "image" | "query" | "queryFile">,
  input: string | undefined
): Effect.fn.Return<RunInput["prompt"] | undefined, Failure, FileSystem.FileSystem | Path.Path | Stdio.Stdio> {
  const { query, queryFile } = flags
  if (query !== undefined && queryFile !== undefined) {
    return yield* makeUsageFailure("--query and --query-file cannot be combined")
  }
  const given =
    queryFile === undefined
      ? query
      : yield* Effect.mapError(readTextFile(queryFile), toReadFailure("--query-file", queryFile))
  const text = appendInput(given, input)
  if (text === undefined) {
    return flags.image === undefined
      ? undefined
      : yield* makeUsageFailure("--image needs a prompt: add -q TEXT or --query-file PATH")
  }
  if (given?.trim() === "") {
    const where = queryFile === undefined ? "--query" : queryFile === "-" ? "stdin" : queryFile
    return yield* makeUsageFailure(`${where} is empty: pass a prompt`)
  }
  return flags.image === undefined ? text : [Prompt.textPart({ text }), yield* readImage(flags.image)]
})

const makeMissingQueryFailure = (what: string) =>
  makeUsageFailure(`${what} needs a prompt: add -q TEXT or --query-file PATH`)

/** Returns the flags for a single prompt from a script: no question is asked, and stdout contains only the answer. */
const applyOneshot = (flags: ChatFlags): ChatFlags | Failure => {
  const { format, mode, model, oneshotPrompt: query, provider } = flags
  if (query === undefined) return flags
  if (flags.query !== undefined || flags.queryFile !== undefined)
    return makeUsageFailure("-z already has the prompt: leave out --query and --query-file")
  if (format === "stream-json")
    return makeUsageFailure("-z prints only the final text: for events, use -q with --format stream-json")
  if (provider !== undefined && provider !== Offline.route.provider && model === undefined)
    return makeUsageFailure("-z with --provider also needs --model")
  return { ...flags, query, quiet: true, oneshot: true, acceptHooks: true, yolo: mode === undefined }
}

/** Fails if the flags do not select a session to continue, or if they also have a prompt. */
const checkAnswered = (
  flags: Pick<ChatFlags, "continue" | "resume">,
  prompt: RunInput["prompt"] | undefined
): Effect.Effect<void, Failure> => {
  if (flags.resume === undefined && flags.continue === undefined)
    return Effect.fail(makeUsageFailure("--answered needs the session: add --resume SESSION"))
  return prompt === undefined
    ? Effect.void
    : Effect.fail(makeUsageFailure("--answered continues the suspended run without a prompt: leave out the prompt"))
}

/** Flags that cannot be combined, each with its explanation. The first combination is reported. */
const conflicts: ReadonlyArray<readonly [isFound: (flags: ChatFlags) => boolean, explanation: string]> = [
  [(flags) => flags.resume !== undefined && flags.continue !== undefined, "--resume and --continue cannot be combined"],
  [(flags) => flags.script !== undefined && flags.replay !== undefined, "--script and --replay cannot be combined"],
  [
    (flags) => flags.outputLastMessage !== undefined && flags.outputSchema === undefined,
    "--output-last-message also needs --output-schema"
  ],
  [
    (flags) => flags.outputSchema !== undefined && flags.format === "stream-json",
    "--output-schema prints only the answer: leave out --format stream-json"
  ]
]

/** Flags that need a prompt. The first one that is set is reported. */
const queryFlags: ReadonlyArray<readonly [isSet: (flags: ChatFlags) => boolean, name: string]> = [
  [({ format }) => format === "stream-json", "--format stream-json"],
  [({ quiet }) => quiet, "--quiet"],
  [({ usageFile }) => usageFile !== undefined, "--usage-file"],
  [({ outputSchema }) => outputSchema !== undefined, "--output-schema"],
  [({ oneshot }) => oneshot, "--oneshot"]
]

/** Fails if the flags contradict each other. Returns the flags of the run. */
const checkFlags = Effect.fnUntraced(function* (given: ChatFlags): Effect.fn.Return<ChatFlags, Failure> {
  const flags = applyOneshot(given)
  if (flags instanceof Failure) return yield* flags
  const conflict = conflicts.find(([isFound]) => isFound(flags))
  return conflict === undefined ? flags : yield* makeUsageFailure(conflict[1])
})

/** Reads the prompt of the flags and of the piped input. Fails without one if a flag needs it. */
const findPrompt = Effect.fnUntraced(function* (flags: ChatFlags) {
  const input = flags.answered ? undefined : yield* readPipedInput(flags)
  const hasQuery = flags.query !== undefined || flags.queryFile !== undefined || input !== undefined
  const missing = flags.answered || hasQuery ? undefined : queryFlags.find(([isSet]) => isSet(flags))
  if (missing !== undefined) return yield* makeMissingQueryFailure(missing[1])
  if (flags.ignoreUserConfig) {
    const { warnAboutIgnoredPlugins } = yield* Effect.promise(() => import("./PluginsCommand.ts"))
    yield* warnAboutIgnoredPlugins
  }
  const prompt = yield* readPrompt(flags, input)
  if (flags.answered) yield* checkAnswered(flags, prompt)
  return prompt
})

/** Chooses the agent file of the flags. In a conversation, the user is asked about a project's file. */
const chooseAgent = Effect.fnUntraced(function* ({ agent, safeMode }: ChatFlags, isConversation: boolean) {
  if (agent === undefined) return undefined
  if (safeMode) return yield* makeUsageFailure("--safe-mode does not use agent files: leave out --agent")
  const { choose } = yield* Effect.promise(() => import("./AgentChoice.ts"))
  return yield* choose(agent, isConversation)
})

/** Runs `hermes chat`: one query if a query is given, otherwise a conversation in a terminal. */
export const runChat = Effect.fn("hermes chat")(function* (given: ChatFlags) {
  const flags = yield* checkFlags(given)
  const { terminal } = yield* Output
  const prompt = yield* findPrompt(flags)
  const isQuery = prompt !== undefined || flags.answered
  const agentFile = yield* chooseAgent(flags, !isQuery)
  if (!isQuery) {
    if (!terminal.input) return yield* makeUsageFailure("Not a terminal. Pass a prompt with -q TEXT, or pipe one.")
    const InteractiveChat = yield* Effect.promise(() => import("./InteractiveChat.ts"))
    return yield* InteractiveChat.run({ ...flags, agentFile })
  }
  const SingleQuery = yield* Effect.promise(() => import("./SingleQuery.ts"))
  const { outputSchema } = flags
  if (outputSchema === undefined) return yield* SingleQuery.run({ ...flags, agentFile }, prompt)
  const { loadSchema } = yield* Effect.promise(() => import("./OutputSchema.ts"))
  const schema = yield* loadSchema(outputSchema)
  return yield* SingleQuery.run({ ...flags, agentFile, quiet: true }, prompt, schema)
})

/** `hermes chat`: a conversation, or one query. */
export const command = Command.make("chat", Flags.chat, (flags) =>
  Effect.flatMap(hermes, (shared) => runChat({ ...shared, ...flags }))
).pipe(
  Command.withExamples([
    { command: "hermes chat", description: "Start a conversation" },
    {
      command: "git diff | hermes chat --query-file - --quiet",
      description: "Read a prompt from a pipe and print only the answer"
    }
  ])
)
