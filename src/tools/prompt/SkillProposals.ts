/**
 * Changes of skills that wait for the user's approval. A background review proposed them when no user could approve
 * them. They have no effect until they are accepted.
 *
 * **Details**
 *
 * They are stored in one file in the user's skills directory, oldest first, without duplicates. If there are more than
 * 20 changes, the oldest is removed.
 *
 * Source: `hermes-llm.md` §6.6, `hermes-product.md` §2.3 (`staged`, `pending_id`).
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Environment from "../../base/config/Environment.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as Ids from "../../base/domain/Ids.ts"

const text = Schema.optionalKey(Schema.UndefinedOr(Schema.String))

/** A change of one skill. Names are directory names; files are relative to the skill's directory. */
export const Change = Schema.Union([
  Schema.Struct({ action: Schema.Literal("create"), name: Schema.String, content: Schema.String, category: text }),
  Schema.Struct({ action: Schema.Literal("edit"), name: Schema.String, content: Schema.String }),
  Schema.Struct({
    action: Schema.Literal("patch"),
    name: Schema.String,
    oldText: Schema.String,
    newText: Schema.String,
    /** True to replace every occurrence; otherwise there must be exactly one. */
    all: Schema.optionalKey(Schema.UndefinedOr(Schema.Boolean)),
    file: text
  }),
  Schema.Struct({ action: Schema.Literal("delete"), name: Schema.String }),
  Schema.Struct({
    action: Schema.Literal("write_file"),
    name: Schema.String,
    file: Schema.String,
    content: Schema.String
  }),
  Schema.Struct({ action: Schema.Literal("remove_file"), name: Schema.String, file: Schema.String })
])
/** Type of {@link Change}. */
export type Change = typeof Change.Type

/** A change that waits for the user's approval. */
const Proposal = Schema.Struct({
  id: Schema.String,
  /** Time of the proposal, in milliseconds since the epoch. */
  at: Schema.Finite,
  change: Change
})
/** Type of a proposal. */
export type Proposal = typeof Proposal.Type

/** Proposals of a user. */
export interface Service {
  /** Proposals, oldest first. */
  readonly list: Effect.Effect<ReadonlyArray<Proposal>, ConfigError>
  /** Stores a change and returns its id. */
  readonly add: (change: Change) => Effect.Effect<string, ConfigError>
  /** Removes a change; returns false if the id is unknown. */
  readonly remove: (id: string) => Effect.Effect<boolean, ConfigError>
}

const most = 20

const File = Schema.fromJsonString(Schema.Struct({ version: Schema.Literal(1), proposals: Schema.Array(Proposal) }))

const decode = Schema.decodeUnknownOption(File)

const renderFile = (proposals: ReadonlyArray<Proposal>): string =>
  proposals.length === 0 ? "" : `${JSON.stringify({ version: 1, proposals })}\n`

/** Creates the service for proposals in a file; `database` holds the lease of its writers. */
export const make = Effect.fnUntraced(function* ({
  database,
  path
}: {
  readonly database: string
  readonly path: string
}) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const context = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const parseFile = (text: string): Effect.Effect<ReadonlyArray<Proposal>, ConfigError> =>
    text.trim() === ""
      ? Effect.succeed([])
      : Option.match(decode(text), {
          onNone: () =>
            Effect.fail(new ConfigError({ path, message: `${path} is no list of proposals: remove it, or repair it` })),
          onSome: ({ proposals }) => Effect.succeed(proposals)
        })
  const updateProposals = <A>(change: (before: ReadonlyArray<Proposal>) => readonly [ReadonlyArray<Proposal>, A]) =>
    Effect.provideContext(
      Environment.updateText(database, path, (text) =>
        Effect.map(parseFile(text), (before) => {
          const [after, result] = change(before)
          return { text: after === before ? text : renderFile(after), result }
        })
      ),
      context
    )
  const list: Service["list"] = Effect.flatMap(Effect.provideContext(Environment.readText(path), context), (found) =>
    parseFile(Option.getOrElse(found, () => ""))
  )
  return {
    list,
    add: Effect.fnUntraced(function* (change) {
      const id = yield* Ids.makeHex(8)
      const text = JSON.stringify(change)
      const at = yield* Clock.currentTimeMillis
      yield* Effect.ignore(fs.makeDirectory(paths.dirname(path), { recursive: true, mode: 0o700 }))
      return yield* updateProposals((before) => {
        const known = before.find((one) => JSON.stringify(one.change) === text)
        return known === undefined ? [[...before, { id, at, change }].slice(-most), id] : [before, known.id]
      })
    }),
    remove: (id) =>
      updateProposals((before) => {
        const after = before.filter((one) => one.id !== id)
        return after.length === before.length ? [before, false] : [after, true]
      })
  } satisfies Service
})
