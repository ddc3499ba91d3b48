/**
 * Stores episodes on disk: an append-only file of JSON lines for each rollout.
 *
 * **Details**
 *
 * A line is written in one piece. Entries that cannot be recreated (beginnings, answers, scores) are synced to disk
 * before the call continues. If a crash or a full disk truncated a line, the line is skipped when the file is read. The
 * next entry begins on a new line, and all earlier lines are preserved.
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Schema from "effect/Schema"
import * as Json from "../../base/domain/Json.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import { RolloutId, RolloutRefused } from "../../base/domain/RolloutPort.ts"
import * as Episode from "./Episode.ts"

/** Service that stores episodes. */
export interface Service {
  /** Begins an episode. Fails if the id is already in use. */
  readonly create: (entry: Episode.BeginEntry) => Effect.Effect<void, RolloutRefused>
  readonly append: (id: string, entry: Episode.Entry) => Effect.Effect<void, RolloutRefused>
  /** Reads an episode in its current state. Fails if the id is unknown. */
  readonly read: (id: string) => Effect.Effect<Episode.Episode, RolloutRefused>
  /** All ids in sorted order. */
  readonly ids: Effect.Effect<ReadonlyArray<string>, RolloutRefused>
}

/** Service that stores episodes. */
export class EpisodeStore extends Context.Service<EpisodeStore, Service>()("hermes-effect/runner/EpisodeStore") {}

const ending = ".jsonl"

const isId = Schema.is(RolloutId)

/** Returns true if an entry must be on disk before the call continues. */
const isDurable = ({ type }: Episode.Entry): boolean => type !== "call" && type !== "failed"

const makeUnknownRolloutError = (id: string): RolloutRefused =>
  new RolloutRefused({
    reason: "unknown_rollout",
    message:
      `There is no rollout ${JSON.stringify(id)}. Open it with POST /v1/rollouts, ` +
      `or list them with \`hermes lab rl list\`.`
  })

const makeTakenRolloutError = (id: string): RolloutRefused =>
  new RolloutRefused({
    reason: "rollout_exists",
    message: `The rollout ${id} exists already. Take another rollout_id, or leave it out.`
  })

const known = new Set<string>([
  "rollout",
  "call",
  "answer",
  "failed",
  "interrupted",
  "finished",
  "advantage",
  "reference"
])

/** Parses an entry. Returns an empty list for a truncated line or a line written by a newer version. */
const parseEntry = (value: unknown): ReadonlyArray<Episode.Entry> => {
  if (!Json.isFields(value) || !known.has(Json.readWord(value["type"]))) return []
  if (value["type"] === "rollout" && value["v"] !== Episode.version) return []
  // Lines are written only by `append`, and every complete line is a valid entry.
  return [value as unknown as Episode.Entry]
}

/** Parses the entries of an episode. Entries of a newer version are left out. */
export const parseEntries = (values: ReadonlyArray<unknown>): ReadonlyArray<Episode.Entry> => values.flatMap(parseEntry)

/** Returns the path of the file of an episode. */
export const makePath = (paths: Path.Path, directory: string, id: string): string =>
  paths.join(directory, `${id}${ending}`)

/** Parses the episode in a file's text. Returns `undefined` if its first entry is missing. */
export const parse = (text: string): Episode.Episode | undefined => {
  let episode: Episode.Episode | undefined
  for (const line of text.split("\n")) {
    for (const entry of parseEntry(Option.getOrUndefined(Json.parse(line)))) episode = Episode.apply(episode, entry)
  }
  return episode
}

const make = Effect.fnUntraced(function* (
  directory: string
): Effect.fn.Return<Service, never, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  /** Files whose last line is truncated. */
  const torn = new Set<string>()
  const encoder = new TextEncoder()
  const getPath = (id: string): string => makePath(paths, directory, id)
  const toStoreFailure =
    (id: string) =>
    (error: PlatformError): RolloutRefused =>
      new RolloutRefused({
        reason: "store_failed",
        message:
          `The episode ${id} cannot be kept in ${directory}: ${describeReason(error)}. ` +
          "Make room or correct the directory; nothing that was kept is lost."
      })

  const writeEntry = (id: string, entry: Episode.Entry, flag: "a" | "ax") =>
    Effect.scoped(
      Effect.gen(function* () {
        const file = yield* fs.open(getPath(id), { flag, mode: 0o600 })
        const cut = torn.has(id) ? "\n" : ""
        yield* file
          .writeAll(encoder.encode(`${cut}${JSON.stringify(entry)}\n`))
          .pipe(Effect.onError(() => Effect.sync(() => torn.add(id))))
        torn.delete(id)
        if (isDurable(entry)) yield* file.sync
      })
    )

  const read: Service["read"] = Effect.fnUntraced(function* (id) {
    // Ids come from clients. An invalid file name could refer to a path outside the directory.
    if (!isId(id)) return yield* makeUnknownRolloutError(id)
    const text = yield* Effect.catch(fs.readFileString(getPath(id)), (error) =>
      error.reason._tag === "NotFound" ? makeUnknownRolloutError(id) : toStoreFailure(id)(error)
    )
    if (text !== "" && !text.endsWith("\n")) torn.add(id)
    return parse(text) ?? (yield* makeUnknownRolloutError(id))
  })

  return {
    create: (entry) =>
      Effect.mapError(
        Effect.andThen(
          fs.makeDirectory(directory, { recursive: true, mode: 0o700 }),
          writeEntry(entry.rollout_id, entry, "ax")
        ),
        (error) =>
          error.reason._tag === "AlreadyExists"
            ? makeTakenRolloutError(entry.rollout_id)
            : toStoreFailure(entry.rollout_id)(error)
      ),
    append: (id, entry) =>
      isId(id)
        ? Effect.mapError(writeEntry(id, entry, "a"), toStoreFailure(id))
        : Effect.fail(makeUnknownRolloutError(id)),
    read,
    ids: Effect.catch(fs.readDirectory(directory), (error) =>
      error.reason._tag === "NotFound" ? Effect.succeed([]) : Effect.fail(error)
    ).pipe(
      Effect.mapBoth({
        onFailure: (error) =>
          new RolloutRefused({ reason: "store_failed", message: `${directory} cannot be read: ${error.message}` }),
        onSuccess: (names) =>
          names
            .filter((name) => name.endsWith(ending))
            .map((name) => name.slice(0, -ending.length))
            .toSorted()
      })
    )
  }
})

/**
 * Provides a store that writes episodes to files in a directory. The directory is created when the first episode
 * begins.
 */
export const layerDirectory = (
  directory: string
): Layer.Layer<EpisodeStore, never, FileSystem.FileSystem | Path.Path> => Layer.effect(EpisodeStore, make(directory))

/** Provides a store that keeps episodes in memory, for tests and for runs that export episodes immediately. */
export const layerMemory: Layer.Layer<EpisodeStore> = Layer.sync(EpisodeStore, () => {
  const episodes = new Map<string, Episode.Episode>()
  const findEpisode = (id: string): Effect.Effect<Episode.Episode, RolloutRefused> =>
    Effect.suspend(() => {
      const episode = episodes.get(id)
      return episode === undefined ? Effect.fail(makeUnknownRolloutError(id)) : Effect.succeed(episode)
    })
  return {
    create: (entry) =>
      Effect.suspend(() => {
        const episode = Episode.apply(undefined, entry)
        if (episodes.has(entry.rollout_id) || episode === undefined)
          return Effect.fail(makeTakenRolloutError(entry.rollout_id))
        episodes.set(entry.rollout_id, episode)
        return Effect.void
      }),
    append: (id, entry) =>
      Effect.map(findEpisode(id), (episode) => void episodes.set(id, Episode.apply(episode, entry) ?? episode)),
    read: findEpisode,
    ids: Effect.sync(() => Array.from(episodes.keys()).toSorted())
  }
})
