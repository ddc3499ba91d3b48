/**
 * Imports sessions from a file with lines in the form of {@link SessionExport.readWithRecord}.
 *
 * **Details**
 *
 * Each line is one session and is added completely or not at all. A line that cannot be read or added is reported with
 * its number, and the import continues. An imported session never replaces an existing session with the same id: it is
 * rejected, or gets a new id. A title that another session of its tenant has is left out.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import { SessionStoreError } from "../base/domain/AgentError.ts"
import * as Cost from "../base/domain/Cost.ts"
import * as Ids from "../base/domain/Ids.ts"
import * as Json from "../base/domain/Json.ts"
import type { Entry } from "../base/domain/RecordEvent.ts"
import * as TurnContext from "../base/domain/TurnContext.ts"
import { RunRecord } from "./RunRecord.ts"
import { type ForeignSession, SessionMaintenance } from "./SessionMaintenance.ts"
import { SessionStore } from "./SessionStorePort.ts"
import * as StoredForm from "./StoredForm.ts"
import { CurrentTenant } from "./TenantScope.ts"

const Count = Schema.Natural
const Line = Schema.Struct({
  id: Schema.String.check(Schema.isPattern(/^[\w.:-]{1,128}$/u)),
  source: Schema.NonEmptyString,
  title: Schema.NullOr(Schema.String),
  provider: Schema.String,
  model: Schema.String,
  cwd: Schema.NullOr(Schema.String),
  /** Absent in exports of earlier versions. */
  branch: Schema.optional(Schema.NullOr(Schema.String)),
  parent_id: Schema.NullOr(Schema.NonEmptyString),
  continues: Schema.optional(Schema.NullOr(Schema.NonEmptyString)),
  has_own_prompt: Schema.optional(Schema.Boolean),
  tenant: Schema.optional(Schema.NullOr(Schema.NonEmptyString)),
  started_at: Schema.Natural,
  ended_at: Schema.NullOr(Schema.Natural),
  end_reason: Schema.NullOr(Schema.String),
  usage: Schema.Struct({
    input_tokens: Count,
    output_tokens: Count,
    cache_read_tokens: Count,
    cache_write_tokens: Count,
    reasoning_tokens: Count,
    request_count: Count
  }),
  cost: Schema.optional(Cost.Spent),
  system_prompt: Schema.String,
  messages: Schema.Array(Schema.Unknown),
  /** Absent in exports of earlier versions. */
  run_record: Schema.optional(Schema.Array(Schema.Unknown))
})
const decodeLine = Schema.decodeUnknownResult(Line)

interface ImportedSession {
  readonly session: ForeignSession
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Entries of the run record as they are in the file. */
  readonly record: ReadonlyArray<unknown>
}

/** Parses one line. Fails with the reason why it cannot be read. */
const readLine = (text: string): Result.Result<ImportedSession, string> => {
  const value = Option.getOrUndefined(Json.parse(text))
  if (value === undefined) return Result.fail("is not JSON")
  const line = decodeLine(value)
  if (Result.isFailure(line))
    return Result.fail(`is no exported session: ${line.failure.message.replace(/\s+/gu, " ")}`)
  const {
    branch = null,
    continues = null,
    cost,
    cwd,
    ended_at,
    end_reason,
    has_own_prompt: hasOwnPrompt = false,
    id,
    messages,
    model,
    parent_id,
    provider,
    run_record: record = [],
    source,
    started_at,
    system_prompt,
    tenant = null,
    title,
    usage
  } = line.success
  const decoded: Array<Prompt.Message> = []
  for (const [index, message] of messages.entries()) {
    const one = StoredForm.decode(JSON.stringify(message))
    if (Result.isFailure(one)) {
      return Result.fail(
        `message ${index} ` +
          `${one.failure.message.includes("newer version") ? one.failure.message : "is no stored message"}`
      )
    }
    // A file must not bring text that no view of the session shows.
    decoded.push(TurnContext.withoutContext(one.success))
  }
  return Result.succeed({
    messages: decoded,
    record,
    session: {
      id: Ids.SessionId.make(id),
      source,
      provider,
      model,
      systemPrompt: system_prompt,
      parentId: parent_id === null ? undefined : Ids.SessionId.make(parent_id),
      continues: continues === null ? undefined : Ids.SessionId.make(continues),
      hasOwnPrompt,
      tenant: tenant ?? undefined,
      title: title ?? undefined,
      cwd: cwd ?? undefined,
      branch: branch ?? undefined,
      startedAt: started_at,
      endedAt: ended_at ?? undefined,
      endReason: end_reason ?? undefined,
      usage: {
        inputTokens: usage.input_tokens,
        outputTokens: usage.output_tokens,
        cacheReadTokens: usage.cache_read_tokens,
        cacheWriteTokens: usage.cache_write_tokens,
        reasoningTokens: usage.reasoning_tokens,
        requestCount: usage.request_count
      },
      cost: cost ?? Cost.toSpent(Cost.nothing)
    }
  })
}

/** Outcome of an import. */
export interface ImportResult {
  /** Ids of the sessions that were added. */
  readonly added: ReadonlyArray<Ids.SessionId>
  /**
   * Notes about lines that were not added, or were changed before they were added. Each note includes the line number.
   */
  readonly notes: ReadonlyArray<string>
  readonly refused: number
}

/** Reads the entries of a run record for the session with a new id. Entries that cannot be read are left out. */
const readRecord = (
  record: ReadonlyArray<unknown>,
  sessionId: Ids.SessionId,
  renamed: ReadonlyMap<string, Ids.SessionId>
): ReadonlyArray<Entry> =>
  record.flatMap((stored) => {
    const text = JSON.stringify(stored, (key, value: unknown) =>
      (key === "sessionId" || key === "source") && typeof value === "string" ? (renamed.get(value) ?? value) : value
    )
    const entry = Option.getOrUndefined(StoredForm.getValue(StoredForm.readEntry(text)))
    return entry === undefined ? [] : [{ ...entry, sessionId }]
  })

/** Returns a key that is the same for equal titles of a tenant. */
const formatTitleKey = ({ tenant, title }: Pick<ForeignSession, "tenant" | "title">): string =>
  JSON.stringify([tenant, title])

/** Adds the sessions in the text of an export. With `newIds`, a session whose id already exists gets a new id. */
export const addSessions = Effect.fnUntraced(function* (
  text: string,
  { newIds }: { readonly newIds: boolean }
): Effect.fn.Return<ImportResult, SessionStoreError, RunRecord | SessionMaintenance | SessionStore> {
  const store = yield* SessionStore
  const runRecord = yield* RunRecord
  const maintenance = yield* SessionMaintenance
  // Within the work for a tenant, all imported sessions become its own.
  const current = yield* CurrentTenant
  const added: Array<Ids.SessionId> = []
  const notes: Array<string> = []
  let refused = 0
  const refuseLine = (message: string): void => {
    refused++
    notes.push(message)
  }
  // Read once: the import is the only writer of most stores. A title that another program takes refuses its line.
  const sessions = yield* store.list({ limit: Number.MAX_SAFE_INTEGER })
  const titles = new Set(sessions.map(formatTitleKey))
  const renamed = new Map<string, Ids.SessionId>()
  for (const [index, line] of text
    .replace(/^\uFEFF/u, "")
    .split("\n")
    .entries()) {
    if (line.trim() === "") continue
    const name = `line ${index + 1}`
    const found = readLine(line)
    if (Result.isFailure(found)) {
      refuseLine(`${name} ${found.failure}`)
      continue
    }
    const { messages, record, session } = found.success
    const isThere = Option.isSome(yield* store.get(session.id))
    if (isThere && !newIds) {
      refuseLine(`${name}: session ${session.id} exists already; pass --new-ids to add it under a new id`)
      continue
    }
    const id = isThere ? yield* Ids.makeSessionId : session.id
    if (isThere) {
      renamed.set(session.id, id)
      notes.push(`${name}: session ${session.id} is added as ${id}`)
    }
    const parentId = session.parentId === undefined ? undefined : (renamed.get(session.parentId) ?? session.parentId)
    const before = session.continues === undefined ? undefined : (renamed.get(session.continues) ?? session.continues)
    // A session can have only one continuation, so a copy of a continuation is not linked to the same session.
    const continues = before !== undefined && (yield* store.newest(before)) === before ? before : undefined
    const titleKey = formatTitleKey({ ...session, tenant: current ?? session.tenant })
    const isTaken = session.title !== undefined && titles.has(titleKey)
    if (isTaken) notes.push(`${name}: the title "${session.title}" is taken; session ${id} has none`)
    yield* maintenance
      .add({ ...session, id, parentId, continues, title: isTaken ? undefined : session.title }, messages)
      .pipe(
        Effect.andThen(record.length === 0 ? Effect.void : runRecord.append(readRecord(record, id, renamed))),
        Effect.matchEffect({
          onSuccess: () =>
            Effect.sync(() => {
              added.push(id)
              titles.add(titleKey)
            }),
          // If the disk is full or the store is locked, the import ends. The sessions that were already imported are
          // retained.
          onFailure: (error) =>
            error.operation === "import"
              ? Effect.fail(
                  new SessionStoreError({
                    operation: "import",
                    message: `${name}: ${error.message} (${added.length} added before it)`,
                    cause: error.cause
                  })
                )
              : Effect.sync(() => refuseLine(`${name}: ${error.message}`))
        })
      )
  }
  return { added, notes, refused }
})
