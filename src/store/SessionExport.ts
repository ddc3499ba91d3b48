/**
 * Exports a stored session as one JSON value, with all messages and without secrets. It is a line in the output of
 * `hermes sessions export`. Also creates archives with one file per session.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type * as Prompt from "effect/ai/Prompt"
import { SessionStoreError } from "../base/domain/AgentError.ts"
import * as Json from "../base/domain/Json.ts"
import type { Entry } from "../base/domain/RecordEvent.ts"
import type { StoredQuestion } from "../base/domain/Question.ts"
import * as Redaction from "../base/domain/Redaction.ts"
import * as TurnContext from "../base/domain/TurnContext.ts"
import * as TarArchive from "../base/domain/TarArchive.ts"
import * as Usage from "../base/domain/Usage.ts"
import * as Compression from "../base/platform/Compression.ts"
import { RunRecord } from "./RunRecord.ts"
import { type Session, SessionStore } from "./SessionStorePort.ts"
import * as StoredForm from "./StoredForm.ts"

/** Returns the data of a session without its messages, under the names used in exports and in `--json`. */
export const toSummary = (session: Session) => ({
  id: session.id,
  source: session.source,
  title: session.title ?? null,
  provider: session.provider,
  model: session.model,
  cwd: session.cwd ?? null,
  branch: session.branch ?? null,
  parent_id: session.parentId ?? null,
  continues: session.continues ?? null,
  has_own_prompt: session.hasOwnPrompt,
  tenant: session.tenant ?? null,
  started_at: session.startedAt,
  ended_at: session.endedAt ?? null,
  end_reason: session.endReason ?? null,
  message_count: session.messageCount,
  tool_call_count: session.toolCallCount,
  usage: Usage.toWire(session.usage),
  cost: session.cost
})

const encodeMessage = (message: Prompt.Message): Effect.Effect<unknown, SessionStoreError> =>
  Result.match(StoredForm.encode(TurnContext.withoutContext(message)), {
    onFailure: (problem) =>
      Effect.fail(new SessionStoreError({ operation: "export", message: `a message ${problem.message}` })),
    onSuccess: (stored) => Effect.succeed(Option.getOrNull(Json.parse(stored)))
  })

/** Logs a warning about messages that cannot be read. It contains the first fault and the number of other faults. */
const warnAboutFaults = (faults: ReadonlyArray<string>): Effect.Effect<void> => {
  const [first, ...more] = faults
  return first === undefined
    ? Effect.void
    : Effect.logWarning(
        "A message is left out: " +
          first +
          (more.length === 0
            ? ""
            : `. So ${more.length === 1 ? "is 1 more message" : `are ${more.length} more messages`} of this session.`)
      )
}

/** Reads the readable messages of a session. One warning is logged for all unreadable messages. */
export const readMessages = (
  id: Session["id"]
): Effect.Effect<ReadonlyArray<Prompt.Message>, SessionStoreError, SessionStore> =>
  Effect.flatMap(
    SessionStore.use((store) => store.readable(id)),
    ({ faults, messages }) =>
      Effect.as(
        warnAboutFaults(faults),
        messages.map(({ message }) => message)
      )
  )

/** Returns a question that the session waits for, or whose answer is not used yet. An import leaves it out. */
const toExportedQuestion = ({ answer, question, state }: StoredQuestion) => ({
  ...question,
  state,
  ...(answer === undefined ? {} : { answer })
})

/** Number of characters of items that are redacted before other fibers may run. */
const redactedAtOnce = 65_536

/**
 * Redacts items one by one, so that a bound of `redactValue` applies to one item and not to all of them. Lets other
 * fibers run in between.
 */
const redactItems = Effect.fnUntraced(function* <A, E>(
  items: ReadonlyArray<A>,
  encode: (item: A) => Effect.Effect<ReadonlyArray<unknown>, E>
): Effect.fn.Return<ReadonlyArray<unknown>, E> {
  const redacted: Array<unknown> = []
  let characters = 0
  for (const item of items) {
    for (const encoded of yield* encode(item)) {
      redacted.push(Redaction.redactValue(encoded))
      characters += Json.countCharacters(encoded, redactedAtOnce)
    }
    if (characters < redactedAtOnce) continue
    characters = 0
    yield* Effect.yieldNow
  }
  return redacted
})

/** Reads a session with its messages, with secrets redacted. Unreadable messages are left out with one warning. */
export const readSession = (session: Session): Effect.Effect<unknown, SessionStoreError, SessionStore> =>
  Effect.gen(function* () {
    const messages = yield* redactItems(yield* readMessages(session.id), (message) =>
      Effect.map(encodeMessage(message), (encoded) => [encoded])
    )
    const questions = yield* SessionStore.use((store) =>
      store.listQuestions({ sessionId: session.id, states: ["open", "answered"], limit: Number.MAX_SAFE_INTEGER })
    )
    return {
      ...Json.readFields(Redaction.redactValue({ ...toSummary(session), system_prompt: session.systemPrompt })),
      messages,
      ...(questions.length === 0 ? {} : { questions: Redaction.redactValue(questions.map(toExportedQuestion)) })
    }
  })

/** Encodes an entry of the run record. A message that the session contains is left out. */
const encodeEntry = (entry: Entry): ReadonlyArray<unknown> => {
  const { event } = entry
  const isJoined = event._tag === "MessageAppended" && event.position !== undefined
  const stored = StoredForm.encodeEntry(isJoined ? { ...entry, event: { ...event, message: undefined } } : entry)
  return Result.isFailure(stored) ? [] : [Option.getOrNull(Json.parse(stored.success))]
}

/** Reads a session like {@link readSession}, with the entries of its run record under `run_record`. */
export const readWithRecord = (session: Session): Effect.Effect<unknown, SessionStoreError, RunRecord | SessionStore> =>
  Effect.gen(function* () {
    const whole = yield* readSession(session)
    const entries = yield* RunRecord.use((record) => Stream.runCollect(record.read({ sessionId: session.id })))
    const record = yield* redactItems(entries, (entry) => Effect.sync(() => encodeEntry(entry)))
    return { ...Json.readFields(whole), run_record: record }
  })

/** Tests, by the file name, whether a file is an archive with one file for each session. */
export const isArchive = (path: string): boolean => /\.(?:tar\.gz|tgz)$/iu.test(path)

/** A file in an archive. */
export interface ArchiveFile {
  readonly name: string
  readonly content: string | Uint8Array
  readonly changedAt: number
}

const encoder = new TextEncoder()

/**
 * Writes files to a compressed archive as they arrive. If the name of a file is already used, a number is added to it.
 */
export const writeArchive = <E, R>(files: Stream.Stream<ArchiveFile, E, R>): Stream.Stream<Uint8Array, E, R> =>
  Stream.suspend(() => {
    const counts = new Map<string, number>()
    const makeUniquePath = (name: string): string => {
      const count = (counts.get(name) ?? 0) + 1
      counts.set(name, count)
      return count === 1 ? name : name.replace(/(\.[^.]*)?$/u, (end) => `-${count}${end}`)
    }
    return Compression.gzip(
      TarArchive.write(
        Stream.map(files, ({ changedAt, content, name }) => ({
          path: makeUniquePath(name),
          bytes: typeof content === "string" ? encoder.encode(content) : content,
          changedAt
        }))
      )
    )
  })

/** Maximum size of an archive that is read, in bytes. */
const largestArchive = 2 ** 30

/** Reads the files of an archive as one concatenated string. Fails with the reason why the archive cannot be read. */
export const readArchive = (bytes: Uint8Array): Result.Result<string, string> => {
  const tar = Compression.gunzip(bytes, largestArchive)
  if (tar === undefined) return Result.fail("it is no .tar.gz archive, or it is damaged or too large")
  return Result.map(TarArchive.read(tar), (files) =>
    files.map((file) => new TextDecoder().decode(file.bytes)).join("\n")
  )
}
