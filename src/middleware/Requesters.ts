/**
 * The middleware whose own code a fiber runs. A side task that such code requests does not pass that middleware again:
 * a wrapper that asks a model about each call would otherwise be asked about its own question, without end.
 *
 * **Details**
 *
 * The code of `next` is not a wrapper's own code: a side task that is requested there passes the wrapper. Plain code
 * runs outside of a fiber after its first `await`, so its requesters also belong to its asynchronous calls. Middleware
 * is identified by kind and name, as in `Faults`, because the stacks of a runtime have the same middleware.
 */
import * as Context from "effect/Context"
import * as Fiber from "effect/Fiber"
import { makeAsyncScope } from "../base/platform/CurrentProcess.ts"
import type { Entry } from "./Faults.ts"

/** Keys of the middleware whose own code runs. */
export type RequesterSet = ReadonlySet<string>

const none: RequesterSet = new Set()

const formatKey = ({ kind, name }: Entry): string => `${kind}|${name}`

/** Middleware whose own code the fiber runs. */
export const Requesters = Context.Reference<RequesterSet>("hermes-effect/middleware/Requesters", {
  defaultValue: () => none
})

const scope = makeAsyncScope<RequesterSet>()

/** Adds middleware to the requesters of a context. */
export const addRequester = <R>(context: Context.Context<R>, entry: Entry): Context.Context<R> =>
  Context.add(context, Requesters, new Set(Context.get(context, Requesters)).add(formatKey(entry)))

/** Returns the requesters of the calling code: of its fiber, or of the plain function that it belongs to. */
export const getRequesters = (): RequesterSet => Fiber.getCurrent()?.getRef(Requesters) ?? scope.get() ?? none

/** Calls plain code, whose asynchronous calls have the requesters of the fiber. */
export const runPlain = <A>(run: () => A): A => {
  const requesters = getRequesters()
  return requesters.size === 0 ? scope.leave(run) : scope.run(requesters, run)
}

/** Runs code that does not belong to the plain function that calls it. */
export const leavePlain = <A>(run: () => A): A => scope.leave(run)

/** Returns the middleware that a side task passes: all but the middleware whose own code requested it. */
export const removeRequesters = <E extends Entry>(
  entries: ReadonlyArray<E>,
  requesters: RequesterSet
): ReadonlyArray<E> => (requesters.size === 0 ? entries : entries.filter((entry) => !requesters.has(formatKey(entry))))
