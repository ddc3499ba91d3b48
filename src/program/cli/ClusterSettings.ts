/**
 * Settings of a cluster, for commands that use its database.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import type * as Redacted from "effect/Redacted"
import * as Config from "../../base/config/Config.ts"
import { Home } from "../../base/config/Environment.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import type { ClusterError } from "../../serve/cluster/Cluster.ts"
import { layer as leasesIn } from "../../base/platform/Leases.ts"
import * as CronJobs from "../../tools/cron/CronJobs.ts"
import { type Failure, makeWorkFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"

/** Address of the database, or the line that says how to give one. */
export const requireDatabaseUrl = ({ cluster: { databaseUrl } }: Values): Effect.Effect<Redacted.Redacted, Failure> =>
  databaseUrl === undefined
    ? Effect.fail(
        makeUsageFailure(
          "cluster.database_url is not set: `hermes config set cluster.database_url " +
            "postgres://user:password@host:port/database`"
        )
      )
    : Effect.succeed(databaseUrl)

/**
 * A database that cannot be used is bad input where its address or version is, and work that was not done otherwise.
 */
export const toClusterFailure = ({ message }: ClusterError): Failure =>
  /cluster\.database_url|newer version|of version|refuses the login|does not answer/.test(message)
    ? makeUsageFailure(message)
    : makeWorkFailure(message)

/** The command itself reports settings that cannot be read. */
const lenient = Effect.flatMap(hermes, (flags) => Config.load(Flags.toConfigOptions(flags))).pipe(
  Effect.map(({ settings }) => settings),
  Effect.catch(() => Effect.provide(Settings, Config.layerFromFile()))
)

const jobsOfFile = Layer.unwrap(
  Effect.map(Home, ({ cron, database }) => Layer.provide(CronJobs.layer(cron), leasesIn(database)))
)

const makeClusterJobs = (url: Redacted.Redacted): Layer.Layer<CronJobs.CronJobs, Failure> =>
  Layer.unwrap(
    Effect.map(
      Effect.promise(() =>
        Promise.all([import("../../serve/cluster/ClusterJobs.ts"), import("../../serve/cluster/ClusterDatabase.ts")])
      ),
      ([jobs, database]) => Layer.provide(jobs.layer, database.layer(url, 3))
    )
  ).pipe(Layer.catch((error) => Layer.effect(CronJobs.CronJobs, Effect.fail(toClusterFailure(error)))))

/** The scheduled jobs of the home directory, or of the cluster if the settings say so. */
export const scheduledJobs = Layer.unwrap(
  Effect.gen(function* () {
    const settings = yield* lenient
    const jobs: Layer.Layer<CronJobs.CronJobs, Failure, FileSystem.FileSystem | Home | Path.Path> = settings.cluster
      .runsCron
      ? makeClusterJobs(yield* requireDatabaseUrl(settings))
      : jobsOfFile
    return jobs
  })
)
