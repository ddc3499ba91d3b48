/**
 * Places of side tasks in a stream, apart from the conversation: readers would take their model calls for steps of the
 * agent.
 *
 * **Details**
 *
 * - A side task that a tool call requested is an agent scope below that call, as a child is. Readers convert it to a
 *   separate trajectory. Its attempts are the model calls in that scope.
 * - Any other side task (a title, a summary) has a mark for the start of each attempt and one for its end, with request
 *   and answer in the metadata. Readers skip marks without data.
 *
 * Source: `hermes-contract.md` §4.5 to §4.7, `relay-atof-atif.md` §1.7 (rules 3 and 7).
 */
import type { ScopeEvent } from "../Atof.ts"
import type * as RunTree from "../RunTree.ts"
import * as AgentScopes from "./AgentScopes.ts"
import type { Facts } from "./ChatCompletion.ts"

/** An open scope of a side task. `key` is the entry for it among the open scopes of its session. */
interface SideScope {
  readonly key: RunTree.Attempt
  readonly scope: ScopeEvent
}

/** The open scopes of side tasks by call. */
export type SideScopes = WeakMap<RunTree.Call, SideScope>

/** Names of the marks of a side task without a call. */
export const markNames = { start: "hermes.side_task.start", end: "hermes.side_task.end" } as const

/** Returns the id of the trajectory of a side task. `first` is its first attempt. */
export const formatTaskId = (first: RunTree.Attempt): string =>
  `${first.start.task ?? "task"}-${first.start.apiRequestId}`

/** Tests whether an attempt continues the side task of an earlier attempt that was not answered. */
export const continuesTask = ({ start }: RunTree.Attempt, before: RunTree.Attempt): boolean =>
  start.attempt > 0 && start.task === before.start.task

/** Ends the scope of a call's side task, if it is open. */
export const endScope = (
  side: SideScopes,
  scopes: AgentScopes.ScopesState,
  session: AgentScopes.Session,
  call: RunTree.Call,
  at: number
): void => {
  const known = side.get(call)
  side.delete(call)
  if (known === undefined || !session.open.delete(known.key)) return
  AgentScopes.end(scopes, session, known.scope, at, { data: null, category_profile: null, facts: {} })
}

/** Returns the scope of the side task that an attempt belongs to. It is opened if this is the first attempt. */
export const openScope = (
  side: SideScopes,
  scopes: AgentScopes.ScopesState,
  session: AgentScopes.Session,
  attempt: RunTree.Attempt,
  { call, facts, within }: { readonly call: RunTree.Call; readonly facts: Facts; readonly within: ScopeEvent }
): ScopeEvent => {
  const known = side.get(call)
  if (known !== undefined && session.open.has(known.key) && continuesTask(attempt, known.key)) return known.scope
  endScope(side, scopes, session, call, attempt.startedAt)
  const id = formatTaskId(attempt)
  const scope = AgentScopes.begin(
    scopes,
    session,
    {
      name: `side task ${attempt.start.task ?? ""}`,
      key: `side task ${attempt.start.apiRequestId}`,
      at: attempt.startedAt,
      metadata: {
        ...facts,
        parent_session_id: session.id,
        parent_tool_call_id: call.id,
        nemo_relay_scope_role: "subagent",
        session_id: id,
        trajectory_id: id,
        agent_name: session.scope.metadata?.["agent_name"] ?? scopes.agent.name,
        version: session.scope.metadata?.["version"] ?? "unknown"
      }
    },
    { category: "agent", parent: within.uuid, category_profile: null, attributes: [], data: null }
  )
  // The attempt itself is the key of its model call.
  const key = { ...attempt }
  session.open.set(key, scope)
  side.set(call, { key, scope })
  return scope
}
