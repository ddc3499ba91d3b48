/**
 * Types of the studio's HTTP interface. The server and the page in the browser share them, so this module contains no
 * code.
 *
 * **Details**
 *
 * Every answer is JSON, except for the page, images, exports and the stream of events. Times are in epoch milliseconds,
 * durations in milliseconds, and costs in US dollars. Fields with unknown values are absent. Text does not contain
 * secrets.
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
 * | `GET /api/sessions/ID/workflow` | `WorkflowExecutionView`, of a session of the source `workflow` |
 * | `GET /api/events` | server-sent events `sessions`: {@link SessionsEvent} |
 * | `GET /api/events?session=ID` | server-sent events `session`: {@link SessionEvent} |
 * | `GET /api/export?format=…&…` | a file: {@link ExportFormat}; the query is a {@link SessionQuery}, or `id=ID` once per session. `archive=true`: a `.tar.gz` with a file for each session |
 * | `POST /api/sessions/ID/replay` | {@link ReplayRequest} → {@link Replayed}, status 201 |
 * | `POST /api/sessions/ID/scores` | {@link ScoreRequest} → {@link Score}, status 201 |
 * | `POST /api/sessions/ID/notes` | {@link NoteRequest} → {@link Note}, status 201 |
 * | `POST /api/sessions/ID/steer` | `SteerRequest` → `Steered`; 409: the running turn did not take it |
 * | `POST /api/sessions/ID/cancel` | `{}` → `Cancelled`; 409: no process works on the session |
 * | `POST /api/sessions/ID/answer` | `AnswerRequest` → `{}`; 409: the question is not open |
 *
 * If a query field has several values, it is repeated: `model=a&model=b` matches either. A failure has a status of at
 * least 400 and the body {@link Problem}. A POST request must have the header `content-type: application/json`; its
 * response is 403 unless {@link About.write} is true.
 *
 * The stream of a session also has events `questions`, whenever the open questions of its running turn change: a list of
 * `OpenQuestion`, without an `id`. They are sent only if {@link About.write} is true, and not before the first
 * question.
 *
 * The stream sends a comment every 15 s. If the store cannot be read, it sends an event `problem` ({@link Problem}) and
 * continues. Each event has the sequence of the record as its `id`; the browser sends the last one as `Last-Event-ID`
 * when it reconnects, and receives all later events. `after=SEQUENCE` in the query does the same for the first
 * connection: a page passes its current {@link SessionDetail.sequence} or {@link SessionList.sequence}.
 */
import type { WireView } from "../../base/domain/ToolView.ts"
import type { Data } from "../trace/PageData.ts"
import type { Row } from "../trace/Row.ts"
import type { Percentiles } from "./StudioSums.ts"

/** Body of every failure: the problem and its remedy, in one line. */
export interface Problem {
  readonly error: string
}

/** Information about the server and its permissions. */
export interface About {
  readonly version: string
  /** Home directory whose sessions are shown. */
  readonly home: string
  /** True if replays, scores and notes are accepted. */
  readonly write: boolean
  /** Number of entries in the record that this version cannot read and leaves out. */
  readonly unread: number
  /** Models that a replay may use: the models in the settings. */
  readonly models: ReadonlyArray<string>
}

/** Status of a session's last run. `interrupted` includes runs that were stopped and runs whose process was killed. */
export type Status = "ok" | "error" | "interrupted" | "running"

/** Sort order of a list. The largest or newest comes first unless `order=asc`. */
export type Sort = "activity" | "started" | "duration" | "cost" | "tokens" | "errors" | "steps" | "title"

/** Query for a list of sessions. Absent fields do not filter. */
export interface SessionQuery {
  /** Words to find in titles, ids and messages. */
  readonly q?: string | undefined
  readonly source?: ReadonlyArray<string> | undefined
  readonly tenant?: ReadonlyArray<string> | undefined
  readonly model?: ReadonlyArray<string> | undefined
  readonly status?: ReadonlyArray<Status> | undefined
  /** Only sessions with activity at or after this time. `until` selects activity before a time. */
  readonly since?: number | undefined
  readonly until?: number | undefined
  /** Only sessions that called one of these tools. */
  readonly tool?: ReadonlyArray<string> | undefined
  readonly minCost?: number | undefined
  /** If true, sub-agents are also listed as separate sessions. */
  readonly children?: boolean | undefined
  /** Sort order. The default is `activity`. */
  readonly sort?: Sort | undefined
  readonly order?: "asc" | "desc" | undefined
  /** Maximum number of sessions. The default is 50, the maximum 500. */
  readonly limit?: number | undefined
  readonly offset?: number | undefined
  /** Offset from UTC in minutes (east is positive), for the days of aggregates. The default is 0. */
  readonly utcOffset?: number | undefined
}

/** Token counts. `input` excludes tokens read from or written to a cache; `reasoning` is part of `output`. */
export interface Tokens {
  readonly input: number
  readonly output: number
  readonly cacheRead: number
  readonly cacheWrite: number
  readonly reasoning: number
}

/** Totals of a part of the record. */
export interface Totals {
  readonly runs: number
  readonly steps: number
  /** Number of requests to models, including retries and side tasks. */
  readonly modelCalls: number
  readonly toolCalls: number
  readonly tokens: Tokens
  /** Sum of the known costs. Absent if no price is known. */
  readonly cost?: number | undefined
  /** Number of model calls whose price is unknown. If it is above 0, `cost` is a lower bound. */
  readonly unpriced: number
  /** Number of failed model calls, failed tool calls and failed runs. */
  readonly errors: number
}

/** A session in a list. Its totals include its sub-agents. */
export interface SessionSummary extends Totals {
  readonly id: string
  readonly title?: string | undefined
  /** Beginning of the first prompt, as a single line. */
  readonly prompt?: string | undefined
  readonly source: string
  /** Tenant of the session, if it has one. */
  readonly tenant?: string | undefined
  readonly models: ReadonlyArray<string>
  readonly tools: ReadonlyArray<string>
  readonly cwd?: string | undefined
  /** Branch on which the session began. */
  readonly branch?: string | undefined
  readonly startedAt: number
  /** Time of the last event. */
  readonly activeAt: number
  /** Time when the session's last run ended. Absent while the session is running. */
  readonly endedAt?: number | undefined
  /** Sum of the durations of the session's own runs. */
  readonly duration: number
  readonly status: Status
  /** Message of the last failed run, as a single line. */
  readonly failure?: string | undefined
  /** The session whose agent delegated to this one. */
  readonly parent?: string | undefined
  /** Goal of the session, if it belongs to a sub-agent. */
  readonly goal?: string | undefined
  /** Number of sub-agents, at all depths. */
  readonly children: number
  readonly replayOf?: ReplaySource | undefined
  /** Ids of the sessions that replay this one. */
  readonly replays: ReadonlyArray<string>
  /** Latest score of each name. */
  readonly scores: ReadonlyArray<Score>
  readonly notes: number
}

/** Response to a query: one page of a list. */
export interface SessionList {
  readonly sessions: ReadonlyArray<SessionSummary>
  /** Number of sessions that match the query, on all pages. */
  readonly total: number
  /** Values that can be offered as filters, from all sessions. */
  readonly known: {
    readonly sources: ReadonlyArray<string>
    readonly models: ReadonlyArray<string>
    readonly tools: ReadonlyArray<string>
  }
  /** Current sequence of the record, to be passed as `after`. */
  readonly sequence: number
}

/** Author of a message. */
export type Origin = "user" | "model" | "tool" | "child" | "runtime"

/** Text of a message, or reasoning of the model. */
export interface TextPart {
  readonly type: "text" | "reasoning"
  readonly text: string
}

/** A tool call, as the model made it. */
export interface CallPart {
  readonly type: "call"
  readonly id: string
  readonly name: string
  /** Arguments as indented JSON. */
  readonly args: string
  /** Ids of the sessions of the sub-agents that the call started. */
  readonly children: ReadonlyArray<string>
  /** File changes that the call made. */
  readonly diffs: ReadonlyArray<FileDiff>
}

/** Result of a call. */
export interface ResultPart {
  readonly type: "result"
  /** Id of the call. */
  readonly id: string
  readonly name: string
  readonly text: string
  /** Status as in rows: `ok`, `error`, `blocked`, `cancelled`, `open`, `exit 1`, … */
  readonly status: string
  readonly duration?: number | undefined
  /** The result as a user reads it. */
  readonly view: WireView
}

/** An image in a message. */
export interface ImagePart {
  readonly type: "image"
  readonly mediaType: string
  /** Absolute path on this server, or an external address from the run. The page does not load external addresses. */
  readonly url: string
  /** True if this server serves the image. */
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
  /** Unified diff without file headers. */
  readonly text: string
}

/** A message of a conversation. */
export interface Message {
  readonly role: "system" | "user" | "assistant" | "tool"
  readonly origin: Origin
  /** Position in the session, which a replay refers to. Absent for messages that are sent but not stored. */
  readonly position?: number | undefined
  /** Turn id of the run that added the message. */
  readonly run?: string | undefined
  readonly at?: number | undefined
  /** Model that produced the answer, if the message is an answer. */
  readonly model?: string | undefined
  /** Id of the row that shows the message. */
  readonly row?: number | undefined
  /** True if the message is incomplete because the stream was interrupted. */
  readonly partial?: boolean | undefined
  readonly parts: ReadonlyArray<Part>
}

/** A run of a session: one turn. */
export interface RunSummary extends Totals {
  /** Turn id of the run. */
  readonly id: string
  readonly startedAt: number
  readonly endedAt?: number | undefined
  readonly status: Status
  /** Exact exit status of the run. Absent while the run is active, and if its process was killed. */
  readonly exit?: string | undefined
  readonly failure?: string | undefined
  readonly model: string
  readonly prompt?: string | undefined
}

/** Totals of one agent of a session: the main agent or a sub-agent. */
export interface AgentTotals extends Totals {
  /** Session of the agent. */
  readonly session: string
  /** Goal of a sub-agent, or `main` for the session itself. */
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

/** Full view of a session. */
export interface SessionDetail {
  /** Current sequence of the record, to be passed as `after`. */
  readonly sequence: number
  readonly summary: SessionSummary
  /** Rows and their text, in the form of the one-file page. The session is the only run. */
  readonly data: Data
  /** Messages of the session itself, in order. Messages of a sub-agent are in the sub-agent's session. */
  readonly messages: ReadonlyArray<Message>
  readonly runs: ReadonlyArray<RunSummary>
  readonly agents: ReadonlyArray<AgentTotals>
  readonly models: ReadonlyArray<ModelTotals>
  readonly scores: ReadonlyArray<Score>
  readonly notes: ReadonlyArray<Note>
  /** Descriptions of lost or unreadable entries in the session's record, one for each kind. */
  readonly warnings: ReadonlyArray<string>
}

/** Items that replace all items from an index on: `[...known.slice(0, from), ...items]`. */
export interface Tail<A> {
  readonly from: number
  readonly items: ReadonlyArray<A>
}

/**
 * A tail, and changed items before it, each with its index. Earlier items can change because the row of an agent is
 * extended by every row below it.
 */
export interface Patch<A> extends Tail<A> {
  readonly changed: ReadonlyArray<readonly [index: number, item: A]>
}

/** Sessions that were added, changed or removed. */
export interface SessionsEvent {
  readonly sessions: ReadonlyArray<SessionSummary>
  /** Ids of removed sessions. The first event after a list contains all sessions removed since the studio started. */
  readonly removed: ReadonlyArray<string>
}

/**
 * Changes to a session: a {@link SessionDetail} in which long lists are reduced to the differences from the previous
 * event.
 */
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
  /** Both runs, with the changes from the left run to the right one. Their names are {@link Side.name}. */
  readonly data: Data
  /** The first difference. Absent if both sides are equal. */
  readonly first?:
    | {
        /** Index of the change in `data.diff`. */
        readonly change: number
        readonly state: "changed" | "removed" | "added"
        readonly left?: string | undefined
        readonly right?: string | undefined
      }
    | undefined
}

/**
 * Format of a dataset in JSON Lines. Each line is an ATIF trajectory (`atif`), a stored session with its messages
 * (`jsonl`), or a training conversation (`sharegpt`). In an archive, each line is a separate file.
 */
export type ExportFormat = "atif" | "jsonl" | "sharegpt"

/**
 * Request to run a session again from one of its messages, as a new session. Everything before the message is retained.
 *
 * - `position` of a user message: the run begins with `prompt`, or with the same message if `prompt` is absent.
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

/** Response to a replay: the new session, which is running. */
export interface Replayed {
  readonly session: string
}

/** Origin of a replay. */
export interface ReplaySource {
  readonly session: string
  readonly position: number
  /** Fields of the request that differ from the source: `prompt`, `model`, `result`. */
  readonly changed: ReadonlyArray<string>
}

/**
 * A new score of a session or of one of its runs. A later score with the same name and run replaces it; null removes
 * it.
 */
export interface ScoreRequest {
  readonly name: string
  readonly value: number | string | boolean | null
  readonly run?: string | undefined
  readonly comment?: string | undefined
}

/** A recorded score of a session or a run. */
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
