/** Errors that all session stores share. Each message is one line and includes the remedy. */
import { SessionStoreError } from "../base/domain/AgentError.ts"

/** Creates the error of `create` with an existing id. */
export const makeExistingSessionError = (id: string): SessionStoreError =>
  new SessionStoreError({
    operation: "create",
    message: `session "${id}" exists already: resume it, or start one with another id`
  })

/** Creates the error of a write to a session that was never created. */
export const makeUnknownSessionError = (operation: string, id: string): SessionStoreError =>
  new SessionStoreError({ operation, message: `no session "${id}": create it before writing to it` })

/** Creates the error of a second continuation of a session. */
export const makeContinuedSessionError = (id: string, newer: string): SessionStoreError =>
  new SessionStoreError({
    operation: "continue",
    message: `session ${id} goes on in ${newer} already: resume that one`
  })

/** Creates the error of a title that another session has. */
export const makeTakenTitleError = (operation: string, title: string, owner: string): SessionStoreError =>
  new SessionStoreError({
    operation,
    message: `title "${title}" belongs to session ${owner}: choose another one, or rename that session first`
  })

/**
 * Creates the error of a write to a session that another process took over because this one did not renew its ownership
 * in time.
 */
export const makeLostSessionError = (id: string): SessionStoreError =>
  new SessionStoreError({
    operation: "append",
    message: `session ${id} was taken over by another process: wait for its run to end, then resume the session`
  })
