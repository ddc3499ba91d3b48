/**
 * The state of workflows for readers: executions, the state of each step, and questions. The workflow engine holds the
 * values themselves.
 *
 * **Details**
 *
 * Writes repeat without effect, so that an execution that is replayed after a kill changes nothing. The first end of an
 * execution and the first answer of a question stay.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as SqlClient from "effect/sql/SqlClient"
import * as Json from "../../../base/domain/Json.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { ClusterError } from "../Cluster.ts"
import type { RunsPlace } from "../Runs.ts"

/** State of an execution. */
export type ExecutionState = "running" | "finished" | "failed" | "cancelled"

/** One execution of a workflow. */
export interface Execution {
  readonly id: string
  readonly workflow: string
  readonly version: number
  /** Digest of the definition with which it was started. */
  readonly digest: string
  readonly state: ExecutionState
  /** Exit of a finished or failed execution, as JSON. */
  readonly outcome: string | undefined
  /** Epoch milliseconds. */
  readonly startedAt: number
  readonly endedAt: number | undefined
}

/** State of a step of an execution. A step without an entry was not reached. */
export interface StepEntry {
  /** Place of the step: its name, after the steps that contain it, with the round or the index of each. */
  readonly path: string
  readonly name: string
  readonly kind: string
  readonly state: "running" | "waiting" | "done" | "failed"
  readonly attempts: number
  /** Reason for a failure, or the chosen branch. */
  readonly message: string | undefined
  /** Session of a step that is an agent. */
  readonly sessionId: string | undefined
  readonly startedAt: number
  readonly endedAt: number | undefined
}

/** A question of an execution. */
export interface Question {
  /** Id of the execution. */
  readonly execution: string
  /** Place of the question in the execution; see {@link StepEntry.path}. */
  readonly question: string
  /** Number of times that the question was asked: an answer that the workflow could not read is asked for again. */
  readonly round: number
  readonly prompt: string
  /** JSON Schema of the answer. */
  readonly schema: unknown
  readonly isAnswered: boolean
  readonly askedAt: number
}

/** Selects executions. */
export interface ExecutionFilter {
  readonly state?: ExecutionState | undefined
  readonly workflow?: string | undefined
  /** Maximum number of executions, the oldest first. Defaults to 200. */
  readonly most?: number | undefined
}

type Write = Effect.Effect<void, ClusterError>

/** Service that stores the state of workflows. */
export interface Service {
  /** Adds an execution. Returns the stored one if the id exists. */
  readonly add: (
    execution: Pick<Execution, "digest" | "id" | "version" | "workflow">
  ) => Effect.Effect<Execution, ClusterError>
  readonly get: (id: string) => Effect.Effect<Execution | undefined, ClusterError>
  readonly list: (filter: ExecutionFilter) => Effect.Effect<ReadonlyArray<Execution>, ClusterError>
  /** Ends an execution. Returns false if it had ended before. */
  readonly finish: (
    id: string,
    state: Exclude<ExecutionState, "running">,
    outcome: string | undefined
  ) => Effect.Effect<boolean, ClusterError>
  /** Marks a step as begun, for the given attempt. */
  readonly beginStep: (
    id: string,
    step: Pick<StepEntry, "attempts" | "kind" | "name" | "path" | "sessionId"> & {
      readonly state: "running" | "waiting"
    }
  ) => Write
  readonly endStep: (id: string, path: string, state: "done" | "failed", message?: string | undefined) => Write
  readonly steps: (id: string) => Effect.Effect<ReadonlyArray<StepEntry>, ClusterError>
  /** Stores a question, or the next round of it. */
  readonly ask: (question: Omit<Question, "askedAt" | "isAnswered">) => Write
  /** Marks the round of a question as answered. */
  readonly closeQuestion: (execution: string, question: string, round: number) => Write
  readonly question: (execution: string, question: string) => Effect.Effect<Question | undefined, ClusterError>
  /** Open questions, of one execution or of all, the oldest first. */
  readonly openQuestions: (execution: string | undefined) => Effect.Effect<ReadonlyArray<Question>, ClusterError>
  /** Notifies the processes that execute workflows of a start, an answer or a cancellation. */
  readonly announce: Effect.Effect<void>
}

/** Service that stores the state of workflows. */
export class WorkflowStore extends Context.Service<WorkflowStore, Service>()(
  "hermes-effect/cluster/workflow/WorkflowStore"
) {}

const defaultMost = 200

const redactMessage = (message: string | undefined): string | undefined =>
  message === undefined ? undefined : Redaction.redactText(message)

const makeMemory = (): Service => {
  const executions = new Map<string, Execution>()
  const steps = new Map<string, Map<string, StepEntry>>()
  const questions = new Map<string, Question>()
  const keyQuestion = (execution: string, question: string): string => `${execution} ${question}`
  return {
    announce: Effect.void,
    add: ({ digest, id, version, workflow }) =>
      Effect.map(Clock.currentTimeMillis, (startedAt) => {
        const known = executions.get(id)
        if (known !== undefined) return known
        const added: Execution = {
          id,
          workflow,
          version,
          digest,
          state: "running",
          outcome: undefined,
          startedAt,
          endedAt: undefined
        }
        executions.set(id, added)
        return added
      }),
    get: (id) => Effect.sync(() => executions.get(id)),
    list: ({ most = defaultMost, state, workflow }) =>
      Effect.sync(() =>
        Array.from(executions.values())
          .filter((one) => (state ?? one.state) === one.state && (workflow ?? one.workflow) === one.workflow)
          .slice(0, most)
      ),
    finish: (id, state, outcome) =>
      Effect.map(Clock.currentTimeMillis, (endedAt) => {
        const known = executions.get(id)
        if (known?.state !== "running") return false
        executions.set(id, { ...known, state, outcome, endedAt })
        return true
      }),
    beginStep: (id, step) =>
      Effect.map(Clock.currentTimeMillis, (startedAt) => {
        const own = steps.get(id) ?? new Map<string, StepEntry>()
        steps.set(id, own)
        const known = own.get(step.path)
        own.set(step.path, {
          ...step,
          message: undefined,
          startedAt: known?.startedAt ?? startedAt,
          endedAt: undefined
        })
      }),
    endStep: (id, path, state, message) =>
      Effect.map(Clock.currentTimeMillis, (endedAt) => {
        const known = steps.get(id)?.get(path)
        if (known !== undefined) steps.get(id)?.set(path, { ...known, state, message: redactMessage(message), endedAt })
      }),
    steps: (id) => Effect.sync(() => Array.from(steps.get(id)?.values() ?? [])),
    ask: (question) =>
      Effect.map(Clock.currentTimeMillis, (askedAt) => {
        const key = keyQuestion(question.execution, question.question)
        if ((questions.get(key)?.round ?? 0) < question.round)
          questions.set(key, { ...question, isAnswered: false, askedAt })
      }),
    closeQuestion: (execution, question, round) =>
      Effect.sync(() => {
        const known = questions.get(keyQuestion(execution, question))
        if (known?.round === round) questions.set(keyQuestion(execution, question), { ...known, isAnswered: true })
      }),
    question: (execution, question) => Effect.sync(() => questions.get(keyQuestion(execution, question))),
    openQuestions: (execution) =>
      Effect.sync(() =>
        Array.from(questions.values()).filter(
          (one) =>
            !one.isAnswered &&
            (execution ?? one.execution) === one.execution &&
            executions.get(one.execution)?.state === "running"
        )
      )
  }
}

/** Stores the state of workflows in memory. */
export const layerMemory: Layer.Layer<WorkflowStore> = Layer.sync(WorkflowStore, makeMemory)

/** Statements that create the tables, shared by SQLite and Postgres. Times are milliseconds since 1970. */
const tables = [
  `CREATE TABLE IF NOT EXISTS workflow_executions (
    id TEXT PRIMARY KEY,
    workflow TEXT NOT NULL,
    version INTEGER NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL,
    outcome TEXT,
    started_at BIGINT NOT NULL,
    ended_at BIGINT
  )`,
  "CREATE INDEX IF NOT EXISTS workflow_executions_state ON workflow_executions (state, workflow)",
  `CREATE TABLE IF NOT EXISTS workflow_steps (
    execution TEXT NOT NULL,
    path TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    message TEXT,
    session_id TEXT,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    PRIMARY KEY (execution, path)
  )`,
  `CREATE TABLE IF NOT EXISTS workflow_questions (
    execution TEXT NOT NULL,
    question TEXT NOT NULL,
    round INTEGER NOT NULL,
    prompt TEXT NOT NULL,
    schema_json TEXT NOT NULL,
    is_answered INTEGER NOT NULL,
    asked_at BIGINT NOT NULL,
    PRIMARY KEY (execution, question)
  )`
]

interface QuestionRow extends Omit<Question, "isAnswered" | "schema"> {
  readonly isAnswered: number
  readonly schema: string
}

const readQuestion = ({ isAnswered, schema, ...rest }: QuestionRow): Question => ({
  ...rest,
  isAnswered: isAnswered === 1,
  schema: Json.parseOrKeep(schema)
})

type Columns<Row> = {
  readonly [Key in keyof Row]: Exclude<Row[Key], undefined> | (undefined extends Row[Key] ? null : never)
}

const toExecution = ({ endedAt, outcome, ...rest }: Columns<Execution>): Execution => ({
  ...rest,
  outcome: outcome ?? undefined,
  endedAt: endedAt ?? undefined
})

const toStep = ({ endedAt, message, sessionId, ...rest }: Columns<StepEntry>): StepEntry => ({
  ...rest,
  message: message ?? undefined,
  sessionId: sessionId ?? undefined,
  endedAt: endedAt ?? undefined
})

/** A database for the state of workflows, and the function that executes its statements. */
export type WorkflowPlace = Pick<RunsPlace, "run" | "sql">

const makeExecutions = ({ run, sql }: WorkflowPlace): Pick<Service, "add" | "finish" | "get" | "list"> => {
  const columns = sql.literal(
    'id, workflow, version, digest, state, outcome, started_at AS "startedAt", ended_at AS "endedAt"'
  )
  const getExecution = (id: string) =>
    Effect.map(run(sql<Columns<Execution>>`SELECT ${columns} FROM workflow_executions WHERE id = ${id}`), ([row]) =>
      row === undefined ? undefined : toExecution(row)
    )
  return {
    add: ({ digest, id, version, workflow }) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const [row] = yield* run(sql<Columns<Execution>>`
          INSERT INTO workflow_executions (id, workflow, version, digest, state, started_at)
          VALUES (${id}, ${workflow}, ${version}, ${digest}, 'running', ${now})
          ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING ${columns}`)
        return row === undefined ? yield* Effect.die(new Error(`the execution ${id} was not stored`)) : toExecution(row)
      }),
    get: getExecution,
    list: ({ most = defaultMost, state, workflow }) =>
      Effect.map(
        run(sql<Columns<Execution>>`
          SELECT ${columns} FROM workflow_executions
          WHERE ${state === undefined ? sql`1 = 1` : sql`state = ${state}`}
            AND ${workflow === undefined ? sql`1 = 1` : sql`workflow = ${workflow}`}
          ORDER BY started_at, id LIMIT ${most}`),
        (rows) => rows.map(toExecution)
      ),
    finish: (id, state, outcome) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.map(
          run(sql`
            UPDATE workflow_executions SET state = ${state}, outcome = ${outcome ?? null}, ended_at = ${now}
            WHERE id = ${id} AND state = 'running' RETURNING id`),
          (rows) => rows.length > 0
        )
      )
  }
}

const makeSteps = ({ run, sql }: WorkflowPlace): Pick<Service, "beginStep" | "endStep" | "steps"> => ({
  beginStep: (id, { attempts, kind, name, path, sessionId, state }) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.asVoid(
        run(sql`
          INSERT INTO workflow_steps (execution, path, name, kind, state, attempts, session_id, started_at)
          VALUES (${id}, ${path}, ${name}, ${kind}, ${state}, ${attempts}, ${sessionId ?? null}, ${now})
          ON CONFLICT (execution, path) DO UPDATE
            SET state = excluded.state, attempts = excluded.attempts, message = NULL, ended_at = NULL`)
      )
    ),
  endStep: (id, path, state, message) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.asVoid(
        run(sql`
          UPDATE workflow_steps SET state = ${state}, message = ${redactMessage(message) ?? null}, ended_at = ${now}
          WHERE execution = ${id} AND path = ${path}`)
      )
    ),
  steps: (id) =>
    Effect.map(
      run(sql<Columns<StepEntry>>`
        SELECT path, name, kind, state, attempts, message, session_id AS "sessionId", started_at AS "startedAt",
          ended_at AS "endedAt"
        FROM workflow_steps WHERE execution = ${id} ORDER BY started_at, path`),
      (rows) => rows.map(toStep)
    )
})

const makeQuestions = ({
  run,
  sql
}: WorkflowPlace): Pick<Service, "ask" | "closeQuestion" | "openQuestions" | "question"> => {
  const columns = sql.literal(
    'q.execution, q.question, q.round, q.prompt, q.schema_json AS "schema", ' +
      'q.is_answered AS "isAnswered", q.asked_at AS "askedAt"'
  )
  return {
    ask: ({ execution, prompt, question, round, schema }) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.asVoid(
          run(sql`
            INSERT INTO workflow_questions (execution, question, round, prompt, schema_json, is_answered, asked_at)
            VALUES (${execution}, ${question}, ${round}, ${prompt}, ${JSON.stringify(schema)}, 0, ${now})
            ON CONFLICT (execution, question) DO UPDATE
              SET round = excluded.round, prompt = excluded.prompt, is_answered = 0, asked_at = excluded.asked_at
              WHERE workflow_questions.round < excluded.round`)
        )
      ),
    closeQuestion: (execution, question, round) =>
      Effect.asVoid(
        run(sql`
          UPDATE workflow_questions SET is_answered = 1
          WHERE execution = ${execution} AND question = ${question} AND round = ${round}`)
      ),
    question: (execution, question) =>
      Effect.map(
        run(sql<QuestionRow>`
          SELECT ${columns} FROM workflow_questions q WHERE execution = ${execution} AND question = ${question}`),
        ([row]) => (row === undefined ? undefined : readQuestion(row))
      ),
    openQuestions: (execution) =>
      Effect.map(
        run(sql<QuestionRow>`
          SELECT ${columns} FROM workflow_questions q JOIN workflow_executions e ON e.id = q.execution
          WHERE q.is_answered = 0 AND e.state = 'running'
            AND ${execution === undefined ? sql`1 = 1` : sql`q.execution = ${execution}`}
          ORDER BY q.asked_at, q.execution, q.question`),
        (rows) => rows.map(readQuestion)
      )
  }
}

/** Creates missing tables. */
export const createTables = (sql: SqlClient.SqlClient) =>
  Effect.forEach(tables, (statement) => sql.unsafe(statement).unprepared, { discard: true })

/** Stores the state of workflows in a database whose tables exist. */
export const makeInDatabase = (place: WorkflowPlace, announce: Effect.Effect<void>): Service => ({
  ...makeExecutions(place),
  ...makeSteps(place),
  ...makeQuestions(place),
  announce
})
