/** Errors that are common to all session stores. Each message is one line and includes the remedy. */
import { SessionStoreError } from "../base/domain/AgentError.ts"

/** Creates the error for `create` with an existing id. */
export const makeExistingSessionError = (id: string): SessionStoreError =>
  new SessionStoreError({
    operation: "create",
    message: `session "${id}" exists already: resume it, or start one with another id`
  })

/** Creates the error for a write to a session that was never created. */
export const makeUnknownSessionError = (operation: string, id: string): SessionStoreError =>
  new SessionStoreError({ operation, message: `no session "${id}": create it before writing to it` })

/** Creates the error for a second continuation of a session. */
export const makeContinuedSessionError = (id: string, newer: string): SessionStoreError =>
  new SessionStoreError({
    operation: "continue",
    message: `session ${id} goes on in ${newer} already: resume that one`
  })

/** Creates the error for a title that another session of the same tenant already has. `owner` is that session. */
export const makeTakenTitleError = (operation: string, title: string, owner: string): SessionStoreError =>
  new SessionStoreError({
    operation,
    message: `title "${title}" belongs to session ${owner}: choose another one, or rename that session first`
  })

/**
 * Creates the error for a write to a lost session: this process did not renew its ownership in time, and another
 * process took over the session.
 */
export const makeLostSessionError = (id: string): SessionStoreError =>
  new SessionStoreError({
    operation: "append",
    message: `session ${id} was taken over by another process: wait for its run to end, then resume the session`
  })
