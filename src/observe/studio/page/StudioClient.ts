/** Requests from the studio's page to its server, and the event streams that the server sends. */
import type {
  About,
  Comparison,
  Note,
  NoteRequest,
  Problem,
  Replayed,
  ReplayRequest,
  Score,
  ScoreRequest,
  SessionDetail,
  SessionEvent,
  SessionList,
  SessionsEvent
} from "../StudioApi.ts"
import type { Answered, AnswerRequest, Cancelled, OpenQuestion, Steered, SteerRequest } from "../SteeringApi.ts"
import type { Aggregates } from "../StudioSums.ts"
import type { WorkflowExecutionView } from "../WorkflowApi.ts"

/** A failed request. The message is for the user. */
export class RequestFailed extends Error {}

const readProblem = async (response: Response): Promise<string> => {
  try {
    // The server reports failures with this type. The `catch` below handles a response from another program.
    const { error }: Problem = await response.json()
    return error
  } catch {
    return `The studio answered ${response.status}. Reload the page, or start hermes trace serve again.`
  }
}

const ask = async (path: string, options?: RequestInit): Promise<Response> => {
  let response: Response
  try {
    response = await fetch(path, options)
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error
    throw new RequestFailed(
      "The studio cannot be reached. Start hermes trace serve again, and open the address that it prints."
    )
  }
  if (!response.ok) throw new RequestFailed(await readProblem(response))
  return response
}

const read = async <A>(path: string, signal?: AbortSignal): Promise<A> =>
  (await ask(path, signal === undefined ? {} : { signal })).json()

const send = async <A>(path: string, body: object): Promise<A> =>
  (
    await ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) })
  ).json()

const session = (id: string): string => `/api/sessions/${encodeURIComponent(id)}`

const query = (parameters: URLSearchParams): string => (parameters.size === 0 ? "" : `?${parameters}`)

/** Reads the version, the home and the permissions of the studio. */
export const about = (): Promise<About> => read("/api/about")
/** Reads the sessions that match the filters in the parameters. */
export const sessions = (parameters: URLSearchParams, signal?: AbortSignal): Promise<SessionList> =>
  read(`/api/sessions${query(parameters)}`, signal)
/** Reads the sums of the sessions that match the filters. */
export const aggregates = (parameters: URLSearchParams, signal?: AbortSignal): Promise<Aggregates> =>
  read(`/api/aggregates${query(parameters)}`, signal)
/** Reads one session with its messages and runs. */
export const detail = (id: string, signal?: AbortSignal): Promise<SessionDetail> => read(session(id), signal)
/** Reads the steps and the state of a workflow's execution. */
export const workflow = (id: string, signal?: AbortSignal): Promise<WorkflowExecutionView> =>
  read(`${session(id)}/workflow`, signal)
/** Reads the differences between two sessions. */
export const compare = (parameters: URLSearchParams, signal?: AbortSignal): Promise<Comparison> =>
  read(`/api/compare${query(parameters)}`, signal)
/** Sends a stored model call again, with the changes of the request. */
export const replay = (id: string, request: ReplayRequest): Promise<Replayed> => send(`${session(id)}/replay`, request)
/** Stores a score for a session. */
export const score = (id: string, request: ScoreRequest): Promise<Score> => send(`${session(id)}/scores`, request)
/** Stores a note for a session. */
export const note = (id: string, request: NoteRequest): Promise<Note> => send(`${session(id)}/notes`, request)
/** Sends a text to the running turn of a session. */
export const steerTurn = (id: string, request: SteerRequest): Promise<Steered> => send(`${session(id)}/steer`, request)
/** Ends the running turn of a session. */
export const cancelTurn = (id: string): Promise<Cancelled> => send(`${session(id)}/cancel`, {})
/** Answers an open question of the running turn of a session. */
export const answerQuestion = (id: string, request: AnswerRequest): Promise<Answered> =>
  send(`${session(id)}/answer`, request)

/**
 * Receiver of events. `lost` is called with true when the stream is interrupted, and with false when it is restored.
 */
interface Receiver<A> {
  readonly on: (event: A) => void
  readonly problem: (message: string) => void
  readonly lost: (isLost: boolean) => void
}

const listen = <A>(
  name: string,
  parameters: Readonly<Record<string, string>>,
  { lost, on, problem }: Receiver<A>,
  more: Readonly<Record<string, (data: string) => void>> = {}
): (() => void) => {
  const source = new EventSource(`/api/events?${new URLSearchParams(parameters)}`)
  source.addEventListener("open", () => lost(false))
  source.addEventListener("error", () => lost(true))
  source.addEventListener(name, (event) => on(JSON.parse(event.data)))
  for (const [other, receive] of Object.entries(more))
    source.addEventListener(other, (event: MessageEvent<string>) => receive(event.data))
  source.addEventListener("problem", (event) => {
    // Events with this name have data of this type.
    const { error }: Problem = JSON.parse(event.data)
    problem(error)
  })
  return () => source.close()
}

/** Listens to the list of sessions. Returns a function that stops listening. */
export const listenToSessions = (after: number, receiver: Receiver<SessionsEvent>): (() => void) =>
  listen("sessions", { after: String(after) }, receiver)

/**
 * Listens to a session. `questions` receives the open questions of its running turn, and none when the connection is
 * made. Returns a function that stops listening.
 */
export const listenToSession = (
  id: string,
  after: number,
  receiver: Receiver<SessionEvent> & { readonly questions: (open: ReadonlyArray<OpenQuestion>) => void }
): (() => void) =>
  listen(
    "session",
    { session: id, after: String(after) },
    {
      ...receiver,
      lost: (isLost) => {
        receiver.lost(isLost)
        // A new connection sends the open questions again.
        if (!isLost) receiver.questions([])
      }
    },
    { questions: (data) => receiver.questions(JSON.parse(data)) }
  )

/** Returns the address of an export: the sessions with these ids, or all sessions that match a query. */
export const exportAddress = (
  { form, format }: { readonly format: string; readonly form: string },
  ids: ReadonlyArray<string>,
  parameters: URLSearchParams
): string => {
  const asked = new URLSearchParams(ids.length === 0 ? parameters : undefined)
  asked.set("format", format)
  if (form === "archive") asked.set("archive", "true")
  for (const id of ids) asked.append("id", id)
  return `/api/export?${asked}`
}
