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

/** Returns the address of the database, or fails with a line that says how to configure it. */
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
 * Converts a database error to a failure of the command. An unusable address or version is bad input; other errors are
 * failed work.
 */
export const toClusterFailure = ({ message }: ClusterError): Failure =>
  /cluster\.database_url|newer version|of version|refuses the login|does not answer/.test(message)
    ? makeUsageFailure(message)
    : makeWorkFailure(message)

/** Errors in the settings are ignored here, because the command itself reports them. */
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

/** Layer of the scheduled jobs, which are stored in the home directory, or in the cluster if the settings select it. */
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
