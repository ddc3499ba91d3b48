/**
 * Types of the studio's HTTP interface: shared by its server and by the page in the browser, so they carry no code.
 *
 * **Details**
 *
 * Every answer is JSON, except for the page, images, exports and the stream of events. Times are epoch milliseconds,
 * durations milliseconds, costs US dollars. A field that is unknown is absent. Texts do not contain secrets.
 *
 * | request | answer |
 * | --- | --- |
 * | `GET /?token=…` | sets the cookie that every other request needs, and redirects to `/` |
 * | `GET /` | the page; `GET /studio.js`, `GET /studio.css`: its script and style |
 * | `GET /api/about` | {@link About} |
 * | `GET /api/sessions?…` | {@link SessionList}; the query is a {@link SessionQuery} |
 * | `GET /api/aggregates?…` | {@link Aggregates}; the query is a {@link SessionQuery}, without `sort`, `limit` and `offset` |
 * | `GET /api/sessions/ID` | {@link SessionDetail} |
 * | `GET /api/sessions/ID/images/N` | the bytes of an image, with its type; {@link ImagePart.url} names it |
 * | `GET /api/compare?left=ID&right=ID&leftRun=TURN&rightRun=TURN` | {@link Comparison}; the runs are optional |
 * | `GET /api/events` | server-sent events `sessions`: {@link SessionsEvent} |
 * | `GET /api/events?session=ID` | server-sent events `session`: {@link SessionEvent} |
 * | `GET /api/export?format=…&…` | a file: {@link ExportFormat}; the query is a {@link SessionQuery}, or `id=ID` once per session. `archive=true`: a `.tar.gz` with a file for each |
 * | `POST /api/sessions/ID/replay` | {@link ReplayRequest} → {@link Replayed}, status 201 |
 * | `POST /api/sessions/ID/scores` | {@link ScoreRequest} → {@link Score}, status 201 |
 * | `POST /api/sessions/ID/notes` | {@link NoteRequest} → {@link Note}, status 201 |
 *
 * A query repeats a field for each of its values: `model=a&model=b` matches either. A failure has a status of 400 and
 * above and the body {@link Problem}. A POST has the header `content-type: application/json`; it answers 403 unless
 * {@link About.write}.
 *
 * The stream sends a comment every 15 s, and an event `problem` ({@link Problem}) when the store cannot be read; it
 * then continues. Each event has the sequence of the record as its `id`; the browser sends the last one as
 * `Last-Event-ID` when it reconnects, and receives all later events. `after=SEQUENCE` in the query means the same for
 * the first connection: a page passes the {@link SessionDetail.sequence} or {@link SessionList.sequence} that it has.
 */
import type { Data } from "../trace/PageData.ts"
import type { Row } from "../trace/Row.ts"
import type { Percentiles } from "./StudioSums.ts"

/** Body of every failure: the condition, then what to do, in one line. */
export interface Problem {
  readonly error: string
}

/** The server and its permissions. */
export interface About {
  readonly version: string
  /** The directory whose sessions are shown. */
  readonly home: string
  /** Replays, scores and notes are accepted. */
  readonly write: boolean
  /** Entries of the record that this version cannot read: they are left out everywhere. */
  readonly unread: number
  /** Models that a replay may be given: the models of the settings. */
  readonly models: ReadonlyArray<string>
}

/** State of a session's last run. `interrupted` covers runs that were stopped and processes that were killed. */
export type Status = "ok" | "error" | "interrupted" | "running"

/** Orders of a list; the largest or newest first unless `order=asc`. */
export type Sort = "activity" | "started" | "duration" | "cost" | "tokens" | "errors" | "steps" | "title"

/** Query of a list. Fields that are absent let all through. */
export interface SessionQuery {
  /** Words in titles, ids and messages. */
  readonly q?: string | undefined
  readonly source?: ReadonlyArray<string> | undefined
  readonly model?: ReadonlyArray<string> | undefined
  readonly status?: ReadonlyArray<Status> | undefined
  /** Sessions with activity at or after, and before. */
  readonly since?: number | undefined
  readonly until?: number | undefined
  /** A tool that was called. */
  readonly tool?: ReadonlyArray<string> | undefined
  readonly minCost?: number | undefined
  /** `true` also lists sub-agents as separate sessions. */
  readonly children?: boolean | undefined
  /** `activity` when absent. */
  readonly sort?: Sort | undefined
  readonly order?: "asc" | "desc" | undefined
  /** 50 when absent, 500 at most. */
  readonly limit?: number | undefined
  readonly offset?: number | undefined
  /** Minutes east of UTC, for the days of aggregates; 0 when absent. */
  readonly utcOffset?: number | undefined
}

/** Tokens. `input` excludes what was read from or written to a cache; `reasoning` is part of `output`. */
export interface Tokens {
  readonly input: number
  readonly output: number
  readonly cacheRead: number
  readonly cacheWrite: number
  readonly reasoning: number
}

/** Sums of some part of the record. */
export interface Totals {
  readonly runs: number
  readonly steps: number
  /** Requests to models: retries and side tasks included. */
  readonly modelCalls: number
  readonly toolCalls: number
  readonly tokens: Tokens
  /** Sum of the known costs; absent when no price is known. */
  readonly cost?: number | undefined
  /** Model calls whose price is unknown: when above 0, `cost` is a lower bound. */
  readonly unpriced: number
  /** Failed model calls, failed tool calls and failed runs. */
  readonly errors: number
}

/** A session in a list. Its totals include its sub-agents. */
export interface SessionSummary extends Totals {
  readonly id: string
  readonly title?: string | undefined
  /** Beginning of the first prompt, in one line. */
  readonly prompt?: string | undefined
  readonly source: string
  readonly models: ReadonlyArray<string>
  readonly tools: ReadonlyArray<string>
  readonly cwd?: string | undefined
  readonly startedAt: number
  /** Time of the last event. */
  readonly activeAt: number
  /** Absent while it runs. */
  readonly endedAt?: number | undefined
  /** Sum of the durations of its own runs. */
  readonly duration: number
  readonly status: Status
  /** Message of the last failure of a run, in one line. */
  readonly failure?: string | undefined
  /** The session whose agent delegated to this one. */
  readonly parent?: string | undefined
  /** Of a sub-agent: its goal. */
  readonly goal?: string | undefined
  /** Sub-agents, of all depths. */
  readonly children: number
  readonly replayOf?: ReplaySource | undefined
  /** Ids of the sessions that replay this one. */
  readonly replays: ReadonlyArray<string>
  /** The latest score of each name. */
  readonly scores: ReadonlyArray<Score>
  readonly notes: number
}

/** Answer to a query: one page of a list. */
export interface SessionList {
  readonly sessions: ReadonlyArray<SessionSummary>
  /** Sessions that the query finds, over all pages. */
  readonly total: number
  /** Values to offer as filters, over all sessions. */
  readonly known: {
    readonly sources: ReadonlyArray<string>
    readonly models: ReadonlyArray<string>
    readonly tools: ReadonlyArray<string>
  }
  /** Sequence of the record at this time, for `after`. */
  readonly sequence: number
}

/** Writer of a message. */
export type Origin = "user" | "model" | "tool" | "child" | "runtime"

/** Text of a message, or reasoning of the model. */
export interface TextPart {
  readonly type: "text" | "reasoning"
  readonly text: string
}

/** A call of a tool, as the model made it. */
export interface CallPart {
  readonly type: "call"
  readonly id: string
  readonly name: string
  /** JSON, indented. */
  readonly args: string
  /** Session of the sub-agents that it started. */
  readonly children: ReadonlyArray<string>
  /** Changes of files that it made. */
  readonly diffs: ReadonlyArray<FileDiff>
}

/** The result of a call. */
export interface ResultPart {
  readonly type: "result"
  /** Id of its call. */
  readonly id: string
  readonly name: string
  readonly text: string
  /** Status as rows have it: `ok`, `error`, `blocked`, `cancelled`, `open`, `exit 1`, … */
  readonly status: string
  readonly duration?: number | undefined
}

/** A picture in a message. */
export interface ImagePart {
  readonly type: "image"
  readonly mediaType: string
  /** Absolute path on this server, or an address that the run named: the page does not load the latter. */
  readonly url: string
  /** The image is served by this server. */
  readonly local: boolean
}

/** A file that is not an image. */
export interface FilePart {
  readonly type: "file"
  readonly mediaType: string
  readonly name?: string | undefined
}

/** A part of a message. */
export type Part = TextPart | CallPart | ResultPart | ImagePart | FilePart

/** A changed file. */
export interface FileDiff {
  readonly path: string
  /** Unified diff, without file headers. */
  readonly text: string
}

/** A message of a conversation. */
export interface Message {
  readonly role: "system" | "user" | "assistant" | "tool"
  readonly origin: Origin
  /** Place in the session, which a replay names; absent of messages that are sent and not stored. */
  readonly position?: number | undefined
  /** Turn of the run that added it. */
  readonly run?: string | undefined
  readonly at?: number | undefined
  /** Of an answer: the model that gave it. */
  readonly model?: string | undefined
  /** Id of the row that shows it. */
  readonly row?: number | undefined
  /** Incomplete: the stream broke off. */
  readonly partial?: boolean | undefined
  readonly parts: ReadonlyArray<Part>
}

/** A run of a session: one turn. */
export interface RunSummary extends Totals {
  /** Its turn id. */
  readonly id: string
  readonly startedAt: number
  readonly endedAt?: number | undefined
  readonly status: Status
  /** Exact exit of the run; absent while it runs, and of a killed process. */
  readonly exit?: string | undefined
  readonly failure?: string | undefined
  readonly model: string
  readonly prompt?: string | undefined
}

/** Totals of an agent of a session, itself or a sub-agent. */
export interface AgentTotals extends Totals {
  /** Its session. */
  readonly session: string
  /** The goal of a sub-agent; `main` of the session itself. */
  readonly name: string
  readonly parent?: string | undefined
  readonly status: Status
  readonly duration: number
}

/** Totals of a model in a session and its sub-agents. */
export interface ModelTotals {
  readonly model: string
  readonly calls: number
  readonly errors: number
  readonly tokens: Tokens
  readonly cost?: number | undefined
  readonly latency?: Percentiles | undefined
}

/** A session whole. */
export interface SessionDetail {
  /** Sequence of the record at this time, for `after`. */
  readonly sequence: number
  readonly summary: SessionSummary
  /** Rows and texts as the one-file page has them; one run, the session. */
  readonly data: Data
  /** Messages of the session itself, in order; messages of a sub-agent are in its own session. */
  readonly messages: ReadonlyArray<Message>
  readonly runs: ReadonlyArray<RunSummary>
  readonly agents: ReadonlyArray<AgentTotals>
  readonly models: ReadonlyArray<ModelTotals>
  readonly scores: ReadonlyArray<Score>
  readonly notes: ReadonlyArray<Note>
  /** Entries of its record that are lost or cannot be read, each kind in a line. */
  readonly warnings: ReadonlyArray<string>
}

/** Items that replace all from a place on: `[...known.slice(0, from), ...items]`. */
export interface Tail<A> {
  readonly from: number
  readonly items: ReadonlyArray<A>
}

/** A tail, and items before it that changed, each with its index: the row of an agent grows with every row below it. */
export interface Patch<A> extends Tail<A> {
  readonly changed: ReadonlyArray<readonly [index: number, item: A]>
}

/** Sessions that are new or changed. */
export interface SessionsEvent {
  readonly sessions: ReadonlyArray<SessionSummary>
  /** Ids of sessions that were removed; of the first event after a list, all since the studio began. */
  readonly removed: ReadonlyArray<string>
}

/** Changes of a session: {@link SessionDetail}, its long lists reduced to the differences from the event before. */
export interface SessionEvent extends Omit<SessionDetail, "data" | "messages"> {
  readonly rows: Patch<Row>
  readonly pool: Tail<string>
  readonly messages: Tail<Message>
  /** Totals of `data.runs[0]`. */
  readonly sums: Data["runs"][number]["sums"]
}

/** One side of a comparison. */
export interface Side extends Totals {
  readonly session: string
  readonly run?: string | undefined
  readonly name: string
  readonly duration: number
  readonly status: Status
  readonly models: ReadonlyArray<string>
  readonly tools: ReadonlyArray<string>
}

/** Two runs, or two sessions, side by side. */
export interface Comparison {
  readonly left: Side
  readonly right: Side
  /** Both runs with the changes from the left to the right; tabs are named by {@link Side.name}. */
  readonly data: Data
  /** The first change; absent when both are the same. */
  readonly first?:
    | {
        /** Index in `data.diff`. */
        readonly change: number
        readonly state: "changed" | "removed" | "added"
        readonly left?: string | undefined
        readonly right?: string | undefined
      }
    | undefined
}

/**
 * Formats of a dataset, JSON Lines all: `atif` has an ATIF trajectory in each line, `jsonl` a stored session with its
 * messages, `sharegpt` a conversation for training. In an archive each line is a file.
 */
export type ExportFormat = "atif" | "jsonl" | "sharegpt"

/**
 * Runs a session again from one of its messages, as a new session. Everything before the message stays.
 *
 * - `position` of a user message: with this `prompt`, or the same one.
 * - `position` of an answer: the model answers again.
 * - `result` replaces the result of one call; the run continues after the results of that step. `position` is then
 *   absent.
 */
export interface ReplayRequest {
  readonly position?: number | undefined
  readonly prompt?: string | undefined
  readonly model?: string | undefined
  readonly result?: { readonly callId: string; readonly text: string } | undefined
}

/** The new session; it is running. */
export interface Replayed {
  readonly session: string
}

/** Origin of a replay. */
export interface ReplaySource {
  readonly session: string
  readonly position: number
  /** Members of the request that differ from the source: `prompt`, `model`, `result`. */
  readonly changed: ReadonlyArray<string>
}

/**
 * A new score of a session or of one of its runs. A later one of the same name and run replaces it; null takes it back.
 */
export interface ScoreRequest {
  readonly name: string
  readonly value: number | string | boolean | null
  readonly run?: string | undefined
  readonly comment?: string | undefined
}

/** A score that was given to a run. */
export interface Score {
  readonly name: string
  readonly value: number | string | boolean
  readonly run?: string | undefined
  readonly comment?: string | undefined
  readonly at: number
}

/** A new note on a session, or on one of its runs or messages. */
export interface NoteRequest {
  readonly text: string
  readonly run?: string | undefined
  readonly position?: number | undefined
}

/** A note, with the time at which it was written. */
export interface Note extends NoteRequest {
  readonly at: number
}
