/** Runs over the rows of a dataset: the dataset, the journal of its rows, and the pool that runs them. */
export * as Dataset from "../../research/batch/Dataset.ts"
export * as Outcome from "../../research/batch/Outcome.ts"
export * as RowJournal from "../../research/batch/RowJournal.ts"
export * as RowPool from "../../research/batch/RowPool.ts"
export * as RowSeed from "../../research/batch/RowSeed.ts"
export * as TrainerRules from "../../research/batch/TrainerRules.ts"
