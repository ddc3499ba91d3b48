/**
 * Messages of the requests of a session in the form of chat completions, their names, and their text as JSON. A request
 * begins with the messages of the previous one, so its cost depends only on its new messages.
 *
 * Source: `relay-atof-atif.md` §1.7 (rule 6), `hermes-contract.md` §4.5 ("Metadata keys").
 */
import type * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import type * as Record from "../../base/domain/RecordEvent.ts"
import { rememberItems, encodeRepeated } from "../Atof.ts"
import type * as RunTree from "../RunTree.ts"
import * as ChatCompletion from "./ChatCompletion.ts"
import * as GrowingBytes from "../GrowingBytes.ts"

type Facts = ChatCompletion.Facts
type Name = number | string

/** Messages of a request in the form of chat completions. */
export interface RequestForm {
  readonly messages: ReadonlyArray<Facts>
  /**
   * Names of the messages in the request, with ranges as in the record. Messages that are missing from the record are
   * left out.
   */
  readonly references: Schema.Json
  /**
   * Origins of messages that have the user role but were not written by the user, by position. Empty if there are no
   * such messages.
   */
  readonly foreignOrigins: Facts
}

/** Reads the requests of one session in order. */
export type RequestReader = (request: Pick<RunTree.Request, "messages" | "names" | "origins">) => RequestForm

/** Creates a reader for the requests of one session. */
export const make = (): RequestReader => {
  let given: ReadonlyArray<Prompt.Message | undefined> = []
  /** Length of that list when it was last read, because the list may have grown. */
  let read = 0
  let names: ReadonlyArray<Name> = []
  let origins: ReadonlyArray<Record.Origin | undefined> = []
  let forms: Array<Facts> = []
  let items = GrowingBytes.make()
  let ranges: Array<Schema.Json> = []
  let first: Name | undefined
  let last: Name | undefined
  let foreign: { [position: string]: string } = {}

  const resetState = (): void => {
    given = []
    read = 0
    forms = []
    // A new buffer is needed because events that wait to be written refer to parts of the previous one.
    items = GrowingBytes.make()
    ranges = []
    first = undefined
    last = undefined
    foreign = {}
  }
  const closeRanges = (): ReadonlyArray<Schema.Json> =>
    first === undefined || last === undefined ? ranges : [...ranges, first === last ? first : [first, last]]
  const addMessage = (message: Prompt.Message | undefined, name: Name, origin: Record.Origin | undefined): void => {
    if (message === undefined) return
    if (origin !== undefined && origin !== "user" && typeof name === "number" && message.role === "user")
      foreign = { ...foreign, [name]: origin }
    // If a message becomes several chat messages, its name is listed once for each of them.
    for (const form of ChatCompletion.messages(message)) {
      if (forms.length > 0) items.add(",")
      items.add(encodeRepeated(form))
      forms.push(form)
      if (typeof name !== "number" || typeof last !== "number" || name !== last + 1) {
        ranges = [...closeRanges()]
        first = name
      }
      last = name
    }
  }

  return (request) => {
    let same = given === request.messages ? read : 0
    while (
      same < read &&
      given[same] === request.messages[same] &&
      names[same] === request.names[same] &&
      origins[same] === request.origins[same]
    )
      same++
    if (same < read) {
      resetState()
      same = 0
    }
    for (let index = same; index < request.messages.length; index++) {
      addMessage(request.messages[index], request.names[index] ?? "", request.origins[index])
    }
    given = request.messages
    read = given.length
    names = request.names
    origins = request.origins
    return {
      messages: rememberItems(forms.slice(), items.slice(0, items.length())),
      references: closeRanges(),
      foreignOrigins: Object.keys(foreign).length === 0 ? {} : { message_origins: foreign }
    }
  }
}
