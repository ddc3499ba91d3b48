/**
 * Messages of the requests of a session in the form of chat completions, their names, and their text as JSON. A request
 * begins with the messages of the one before it, so each costs what is new in it.
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

/** Messages of a request. */
export interface RequestForm {
  readonly messages: ReadonlyArray<Facts>
  /** Names of those messages, ranges as the record has them; messages that the record lost are left out. */
  readonly references: Schema.Json
  /** Writers of messages with the user's role that the user did not write, by position; empty without such messages. */
  readonly foreignOrigins: Facts
}

/** Function that reads the requests of one session in their order. */
export type RequestReader = (request: Pick<RunTree.Request, "messages" | "names" | "origins">) => RequestForm

/** Reads requests; none was read yet. */
export const make = (): RequestReader => {
  let given: ReadonlyArray<Prompt.Message | undefined> = []
  /** Length of that list when it was read: the same one may have grown. */
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
    // Events that wait for the disk have parts of the one before.
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
    // A message that is several in this form has its name as often.
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
