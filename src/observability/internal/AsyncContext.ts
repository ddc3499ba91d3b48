/**
 * What Node keeps for a chain of asynchronous calls (`AsyncLocalStorage`), carried over a callback that foreign code makes
 * from somewhere else.
 *
 * @since 0.1.0
 */
import { AsyncLocalStorage } from "node:async_hooks"

/** Runs a function in the context in which this was called. */
export const snapshot = (): (run: () => void) => void => AsyncLocalStorage.snapshot()
