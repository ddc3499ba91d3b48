/** Durable runs across several processes that share a database. */
export * as Cluster from "../../serve/cluster/Cluster.ts"
