"""Training as in section 5 of the paper, on the Trainer of transformers.

    VaswaniTrainer              a Seq2SeqTrainer with the paper's updates, optimizer and schedule
    VaswaniTrainingArguments    its settings (see `training_arguments`)
    check_savable               what would otherwise fail late, refused early

Left to others: from files to a finished folder (`training_run`), clock and log
(`training_progress`), whether tokenizer and model fit (`training_vocabulary`).
"""

import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.data import DataLoader
from transformers import (
    DefaultFlowCallback,
    EarlyStoppingCallback,
    PreTrainedTokenizerBase,
    PrinterCallback,
    ProgressCallback,
    set_seed,
)
from transformers.trainer_utils import TrainOutput
from transformers.training_args import OptimizerNames

from vaswani.batching import TokenBudgetBatchSampler, TranslationCollator
from vaswani.errors import InputError
from vaswani.evaluation import corpus_scores
from vaswani.generation_vaswani import check_search_settings
from vaswani.modeling_vaswani import VaswaniForConditionalGeneration
from vaswani.optimization import paper_optimizer, paper_schedule
from vaswani.training_arguments import VaswaniTrainingArguments
from vaswani.training_averaging import AveragingTrainer
from vaswani.training_data import TokenizedPairs
from vaswani.training_progress import InterruptSwitch, ProgressReport, RunClock
from vaswani.training_streaming import StreamedPairs
from vaswani.training_updates import update_sampler
from vaswani.training_vocabulary import KeptTokenIds, check_tokenizer_fits
from vaswani.translation import Translator

__all__ = ["VaswaniTrainer", "VaswaniTrainingArguments", "check_savable"]

# Source and target tokens of one batch of the validation loss, padding included.
_EVALUATION_TOKENS = 4096


def check_savable(model: VaswaniForConditionalGeneration) -> None:
    """Raises InputError if the model's settings cannot be searched with, or written at the end.

    transformers checks generation settings when it saves them: after the training.
    """
    try:
        check_search_settings(model.generation_config)
    except ValueError as error:
        raise InputError(str(error)) from error
    with tempfile.TemporaryDirectory() as folder:
        try:
            model.config.save_pretrained(folder)
            model.generation_config.save_pretrained(folder)
        except (ValueError, OSError) as error:
            text = " ".join(str(error).split())
            raise InputError(
                f"`generation_config` and `config` must be valid to be saved, got: {text}"
            ) from error


class EvaluationInterrupted(KeyboardInterrupt):
    """A Ctrl-C during an evaluation within training."""


class VaswaniTrainer(AveragingTrainer):
    """A Seq2SeqTrainer whose updates, optimizer and rates are those of the paper.

    An update holds `tokens_per_update` source and as many target tokens, or
    `sentences_per_update` pairs, whatever the number of processes and of accumulation steps.
    Evaluations give the negative log-likelihood of all validation pairs, and BLEU and chrF of real
    translations of `eval_sentences` of them.

    Args:
        model: the model.
        args: its settings.
        train_dataset: `TokenizedPairs`, `StreamedPairs`, or any dataset with the columns
            `input_ids` and `labels`.
        eval_dataset: the same; without texts, the labels are decoded to be scored against.
        processing_class: the tokenizer, saved with the model.
        log_file: gets every log entry as a line of JSON.
        Others are those of Seq2SeqTrainer.

    Raises:
        InputError: if tokenizer and model do not fit each other, or settings cannot be saved.
    """

    args: VaswaniTrainingArguments
    model: Any
    processing_class: Any
    train_dataset: Any
    eval_dataset: Any
    data_collator: Any
    # Language to compute the paper's BLEU for, beside sacreBLEU's.
    paper_bleu: str | None = None

    def __init__(
        self,
        model: VaswaniForConditionalGeneration,
        args: VaswaniTrainingArguments,
        *,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: PreTrainedTokenizerBase,
        log_file: Path | None = None,
        **others: Any,
    ) -> None:
        check_tokenizer_fits(processing_class, model.config)
        check_savable(model)
        train_pairs = train_dataset
        if not isinstance(train_dataset, StreamedPairs | None):
            train_pairs = TokenizedPairs.from_rows(train_dataset)
        eval_pairs = None if eval_dataset is None else TokenizedPairs.from_rows(eval_dataset)
        if eval_pairs is None:
            args.eval_strategy = "no"
            args.load_best_model_at_end = False
        others.setdefault("data_collator", TranslationCollator(model.config.source_pad_token_id))
        super().__init__(
            model=model,
            args=args,
            train_dataset=train_pairs,
            eval_dataset=eval_pairs,
            processing_class=processing_class,
            **others,
        )
        self.switch = InterruptSwitch()
        self.clock = RunClock(self.switch, self._agree if args.world_size > 1 else None)
        self._replace_callbacks(log_file)
        if getattr(processing_class, "separate_vocabularies", False):
            self.add_callback(KeptTokenIds(model))
        self._tokens = torch.zeros(2, dtype=torch.long)
        self._seconds_evaluating = 0.0
        self._last_log: tuple[float, float] = (time.monotonic(), 0.0)
        self.train_sampler: TokenBudgetBatchSampler | None = None

    def _replace_callbacks(self, log_file: Path | None) -> None:
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        # The clock overrules what the default flow asks for, so it must come after it.
        assert isinstance(self.callback_handler.callbacks[0], DefaultFlowCallback)
        self.add_callback(self.clock)
        report = ProgressReport(
            self.clock, bar=sys.stderr.isatty() and not self.args.disable_tqdm, log_file=log_file
        )
        self.add_callback(report)
        if self.args.early_stopping_patience and self.eval_dataset is not None:
            self.add_callback(EarlyStoppingCallback(self.args.early_stopping_patience))

    # Data

    def get_train_dataloader(self) -> DataLoader:
        """Batches of an update's token budget, dealt to the processes in turn."""
        pairs = self.train_dataset
        if isinstance(pairs, StreamedPairs):
            # It deals its batches to the processes itself, and a worker would read all of it again.
            return DataLoader(pairs, batch_size=None, collate_fn=self.data_collator)
        self.train_sampler = update_sampler(pairs, self.args)
        loader = DataLoader(
            pairs,
            batch_sampler=self.train_sampler,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory,
        )
        return self.accelerator.prepare(loader)

    def get_batch_samples(
        self, epoch_iterator: Iterator, num_batches: int, device: torch.device
    ) -> tuple[list, Tensor | int | None]:
        """As the parent does; counts tokens on the way, without waiting for the device."""
        batches, count = super().get_batch_samples(epoch_iterator, num_batches, device)
        for batch in batches:
            mask, labels = batch["attention_mask"], batch["labels"]
            real = mask.sum() + labels.ne(-100).sum()
            places = torch.tensor(mask.numel() + labels.numel(), device=real.device)
            self._tokens = self._tokens.to(real.device) + torch.stack([real, places])
        return batches, count

    # Updates

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """The paper's Adam, unless `paper_schedule` is off or another `optim` is asked for."""
        own = self.args.paper_schedule and self.args.optim == OptimizerNames.ADAMW_TORCH_FUSED
        if self.optimizer is None and own and not self.args.weight_decay:
            self.optimizer = paper_optimizer(
                (self.model if model is None else model).parameters(),
                beta1=self.args.adam_beta1,
                beta2=self.args.adam_beta2,
                epsilon=self.args.adam_epsilon,
            )
        return super().create_optimizer(model)

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> Any:
        """The paper's rates, unless `paper_schedule` is off."""
        if self.lr_scheduler is None and self.args.paper_schedule:
            optimizer = optimizer or self.optimizer
            assert optimizer is not None and self.args.learning_rate_factor is not None
            self.lr_scheduler = paper_schedule(
                optimizer,
                d_model=self.model.config.d_model,
                warmup_updates=self.args.get_warmup_steps(num_training_steps),
                factor=self.args.learning_rate_factor,
            )
            self._created_lr_scheduler = True
        return super().create_scheduler(num_training_steps, optimizer)

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """As the parent does, without logits (tokens x vocabulary) and caches in training."""
        if model.training:
            inputs = {**inputs, "return_logits": False, "use_cache": False}
        return super().compute_loss(model, inputs, *args, **kwargs)

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Trains; a first Ctrl-C ends it after the current update, see `switch.requested`."""
        check_savable(self.model)
        if not resume_from_checkpoint:
            # Whatever was drawn since the trainer was made must not show in the weights.
            set_seed(self.args.seed)
        with self.switch.listening():
            try:
                output = super().train(resume_from_checkpoint, *args, **kwargs)
            except EvaluationInterrupted:
                self.callback_handler.on_train_end(self.args, self.state, self.control)
                if self.args.load_best_model_at_end and self.state.best_model_checkpoint:
                    self._load_best_model()
                self.is_in_train = False
                output = TrainOutput(self.state.global_step, math.nan, {})
            self.settle_weights()
            return output

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        """The norm if it was needed for clipping: a pass over all gradients for a log otherwise."""
        return None if grad_norm is None else super()._get_grad_norm(model, grad_norm)

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """As the parent does; a table that another one is tied to is not missing."""
        tied = set(self.model.all_tied_weights_keys)
        load_result.missing_keys[:] = [key for key in load_result.missing_keys if key not in tied]
        super()._issue_warnings_after_load(load_result)

    def _agree(self, flags: list[bool]) -> list[bool]:
        """True where any process says so: a Ctrl-C or a clock must not part the processes."""
        votes = torch.tensor(flags, dtype=torch.int32, device=self.args.device)
        return (self.accelerator.reduce(votes, reduction="sum") > 0).tolist()

    # Evaluation

    def evaluate(
        self,
        eval_dataset: Any = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
        *,
        num_beams: int = 1,
        max_sentences: int | None = None,
        **gen_kwargs: Any,
    ) -> dict[str, Any]:
        """Measures the model on validation pairs.

        Args:
            eval_dataset: as for the trainer; its own by default.
            num_beams: beam size of the translations; 1 is greedy.
            max_sentences: most sentences to translate; `eval_sentences` by default.
            gen_kwargs: others of `Translator.translate`.

        Returns:
            `eval_loss` in nats per target token and `eval_perplexity`, of all pairs; `eval_bleu`,
            `eval_chrf`, their signatures, `eval_sentences` scored, and `eval_truncated`, how many
            of them reached the length limit.
        """
        started = time.monotonic()
        given = self.eval_dataset if eval_dataset is None else eval_dataset
        if given is None:
            raise InputError("`eval_dataset` must be given to evaluate, got none.")
        pairs = TokenizedPairs.from_rows(given)
        loss = self._validation_loss(pairs)
        values: dict[str, Any] = {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
        limit = self.args.eval_sentences if max_sentences is None else max_sentences
        if limit and self.args.predict_with_generate:
            hypotheses, references, truncated = self.translate_pairs(
                pairs, pairs.spread(limit), num_beams=num_beams, **gen_kwargs
            )
            values |= corpus_scores(hypotheses, references, paper_bleu=self.paper_bleu)
            values |= {"sentences": len(hypotheses), "truncated": truncated}
        values["seconds"] = time.monotonic() - started
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in values.items()}
        self._seconds_evaluating += values["seconds"]
        if self.is_in_train:
            self.clock.took_evaluation(
                values["seconds"], min(limit, len(pairs)), len(pairs), self.args.max_minutes
            )
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    def _validation_loss(self, pairs: TokenizedPairs) -> float:
        """Negative log-likelihood of all pairs, in nats per target token."""
        longest = int(max(pairs.source_lengths.max(), pairs.target_lengths.max()))
        sampler = TokenBudgetBatchSampler(
            pairs.source_lengths,
            pairs.target_lengths,
            tokens_per_update=max(_EVALUATION_TOKENS, longest),
            shuffle=False,
        )
        total = torch.zeros((), dtype=torch.float64)
        tokens = 0
        self.model.eval()
        batches = list(sampler)[self.args.process_index :: self.args.world_size]
        for indices in batches:
            self._stop_if_interrupted()
            batch = self.data_collator([pairs[k] for k in indices])
            batch = {name: tensor.to(self.args.device) for name, tensor in batch.items()}
            with torch.no_grad(), self.accelerator.autocast():
                # Divided by 1: the sum over the tokens.
                loss = self.model(
                    **batch, num_items_in_batch=1, return_logits=False, use_cache=False
                ).loss
            total += loss.double().cpu()
            tokens += int(batch["labels"].ne(-100).sum())
        sums = gather_object([(float(total), tokens)]) if self.args.world_size > 1 else None
        if sums is not None:
            return sum(part for part, _ in sums) / sum(count for _, count in sums)
        return float(total) / tokens

    def translate_pairs(
        self, pairs: TokenizedPairs, indices: list[int], **search: Any
    ) -> tuple[list[str], list[str], int]:
        """Translations of the pairs at `indices`, their references, and how many were cut off."""
        sources, targets = self._texts(pairs, indices)
        rank, world = self.args.process_index, self.args.world_size
        self.model.eval()
        model: Any = self.accelerator.unwrap_model(self.model)
        # PEFT put its adapters into the layers of the model that it wraps.
        model = model.get_base_model() if hasattr(model, "get_base_model") else model
        translator = Translator(model, self.processing_class)

        def finished(count: int) -> None:
            self._stop_if_interrupted()

        own = translator.translate(sources[rank::world], progress=finished, **search)
        found = [(rank + world * n, t.text, t.truncated) for n, t in enumerate(own)]
        if world > 1:
            found = sorted(gather_object(found))
        return [text for _, text, _ in found], targets, sum(cut for _, _, cut in found)

    def _texts(self, pairs: TokenizedPairs, indices: list[int]) -> tuple[list[str], list[str]]:
        if pairs.sources is not None and pairs.targets is not None:
            return [pairs.sources[k] for k in indices], [pairs.targets[k] for k in indices]
        decode: Callable[..., list[str]] = self.processing_class.batch_decode
        rows = [pairs[k] for k in indices]
        return (
            decode([row["input_ids"] for row in rows], skip_special_tokens=True, side="source"),
            decode([row["labels"] for row in rows], skip_special_tokens=True),
        )

    def _pad_tensors_to_max_len(self, tensor: Tensor, max_length: int) -> Tensor:
        """As the parent does, with the padding of the target: the tokenizer's is the source's."""
        missing = max_length - tensor.size(-1)
        return pad(tensor, (0, missing), value=self.model.config.pad_token_id)

    def _stop_if_interrupted(self) -> None:
        # Within an evaluation there is no update to wait for.
        if self.switch.requested:
            raise EvaluationInterrupted

    # Logs

    def log(self, logs: dict[str, Any], start_time: float | None = None) -> None:
        """As the parent does; entries of training get speed, padding and time left too."""
        if "loss" in logs:
            real, places = self._tokens.tolist()
            self._tokens.zero_()
            now, evaluating = time.monotonic(), self._seconds_evaluating
            since, evaluating_then = self._last_log
            self._last_log = (now, evaluating)
            seconds = max(1e-9, now - since - (evaluating - evaluating_then))
            logs["tokens_per_second"] = real * self.args.world_size / seconds
            logs["padding"] = 1 - real / max(1, places)
            left = self.clock.minutes_left(self.args, self.state)
            if left is not None:
                logs["minutes_left"] = left
        super().log(logs, start_time)
