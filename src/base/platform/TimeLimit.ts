/**
 * A time limit for code that cannot be interrupted from inside JavaScript, such as a regular expression with excessive
 * backtracking.
 *
 * **Details**
 *
 * V8 checks for termination requests while it matches; the time limit of `node:vm` makes such a request from another
 * thread. The code runs on this thread and in this realm, without copies. Each call costs about 0.15 ms for its
 * watchdog. Places other than Node, Bun and Deno have no such limit.
 */
import * as Predicate from "effect/Predicate"
import { createContext, Script } from "node:vm"

let context: { run: () => unknown } | undefined
let script: Script | undefined

/** Runs a function and returns its result; `undefined` if it took longer than `millis`. */
export const runWithin = <A extends {}>(millis: number, run: () => A): A | undefined => {
  context ??= createContext({ run: () => undefined }) as { run: () => unknown } // the same object, made a context
  let result: A | undefined
  context.run = () => {
    result = run()
  }
  try {
    script ??= new Script("run()")
    script.runInContext(context, { timeout: millis })
    return result
  } catch (error) {
    // The error comes from another realm, so it is not an instance of this realm's `Error`.
    if (Predicate.hasProperty(error, "code") && error.code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return undefined
    throw error
  }
}
