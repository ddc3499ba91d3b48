/**
 * A bound on code that cannot be interrupted from inside JavaScript: a regular expression that backtracks without end.
 *
 * **Details**
 *
 * V8 checks for termination while it matches; the time limit of `node:vm` asks for it from another thread. The code
 * runs on this thread, in this realm, with no copying. A call costs some 0.15 ms for its watchdog.
 */
import * as Predicate from "effect/Predicate"
import { createContext, Script } from "node:vm"

let context: { run: () => unknown } | undefined
const script = new Script("run()")

/** Runs a function; returns `undefined` when it took longer than `millis`. */
export const runWithin = <A extends {}>(millis: number, run: () => A): A | undefined => {
  context ??= createContext({ run: () => undefined }) as { run: () => unknown } // the same object, made a context
  let result: A | undefined
  context.run = () => {
    result = run()
  }
  try {
    script.runInContext(context, { timeout: millis })
    return result
  } catch (error) {
    // An error of the other realm: not an `Error` of this one.
    if (Predicate.hasProperty(error, "code") && error.code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return undefined
    throw error
  }
}
