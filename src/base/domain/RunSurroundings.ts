/**
 * Contexts in which the runs of an agent and its other operations take place: the services of the agent, of the
 * caller, and of one call of the application.
 *
 * **Details**
 *
 * A run adds services for its calls one after another. A context copies all of its services after eight additions by
 * default; contexts of runs do so after {@link maxAdditions}, which a run does not reach. A context is reused while
 * the caller's context is the same object, as it is for all runs of a `ManagedRuntime`.
 */
import * as Context from "effect/Context"

/** Number of services that are added to a context before all of its services are copied. */
const maxAdditions = 32

/** The context that all contexts of a run extend, unless code of the application replaces the whole context. */
export class RunSurroundings extends Context.Service<RunSurroundings, { readonly context: Context.Context<never> }>()(
  "hermes-effect/domain/RunSurroundings"
) {}

const joinContexts = (contexts: ReadonlyArray<Context.Context<never>>): Context.Context<never> => {
  const services = new Map<string, unknown>()
  for (const context of contexts) for (const [key, service] of context.mapUnsafe) services.set(key, service)
  const root: { context: Context.Context<never> } = { context: Context.empty() }
  services.set(RunSurroundings.key, root)
  root.context = Context.makeUnsafe(services, { maxDepth: maxAdditions })
  return root.context
}

/**
 * Creates a function that joins the services of an agent with the services of a caller, and with the services that the
 * application passes to one call. Later ones take precedence.
 */
export const makeJoin = (
  agent: Context.Context<never>
): ((caller: Context.Context<never>, own: Context.Context<never> | undefined) => Context.Context<never>) => {
  const known = new WeakMap<Context.Context<never>, Context.Context<never>>()
  return (caller, own) => {
    if (own !== undefined) return joinContexts([agent, caller, own])
    const before = known.get(caller)
    if (before !== undefined) return before
    const joined = joinContexts([agent, caller])
    known.set(caller, joined)
    return joined
  }
}

/** A service with its key. */
interface Member {
  readonly key: Context.Key<never, unknown>
  readonly service: unknown
}

const isAbsent = (context: Context.Context<never>, { key }: Member): boolean =>
  Context.getOrUndefined(context, key) === undefined

/**
 * Creates a function that adds services to a context unless the context has them already. The services that the
 * contexts of an agent lack are looked up once for all of its runs.
 */
export const makeAddition = (
  services: Context.Context<never>
): ((context: Context.Context<never>) => Context.Context<never>) => {
  const members = Array.from(services.mapUnsafe, ([key, service]): Member => ({
    key: Context.Service<never, unknown>(key),
    service
  }))
  const lacking = new WeakMap<object, ReadonlyArray<Member>>()
  const selectCandidates = (context: Context.Context<never>): ReadonlyArray<Member> => {
    const root = Context.getOrUndefined(context, RunSurroundings)
    if (root === undefined) return members
    const known = lacking.get(root)
    if (known !== undefined) return known
    const absent = members.filter((member) => isAbsent(root.context, member))
    lacking.set(root, absent)
    return absent
  }
  return (context) => {
    let all = context
    for (const member of selectCandidates(context)) {
      if (isAbsent(all, member)) all = Context.add(all, member.key, member.service)
    }
    return all
  }
}
