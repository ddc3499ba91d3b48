/**
 * Which run an event belongs to, as text. Pure.
 *
 * **Details**
 *
 * The turn says it best, in its task or else in its session. An event without a turn belongs to the attempt that it names,
 * and one without either to what its task or session does at the time.
 *
 * Source: `hermes-contract.md` §5 ("Trace model").
 */
import { type Fields, text } from "../atof/Facts.ts"

/** See the module. */
export const of = (payload: Fields): string => {
  const [task, session] = [text(payload, "task_id"), text(payload, "session_id")]
  const [turn, attempt] = [text(payload, "turn_id"), text(payload, "api_request_id")]
  const owner = task !== "" ? `task:${task}` : `session:${session || "default"}`
  if (turn !== "") return `${owner}:turn:${turn}`
  if (attempt !== "") return `${owner}:api:${attempt}`
  return task === "" ? owner : task
}
