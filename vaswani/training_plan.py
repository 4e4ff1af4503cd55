"""What a training run would be, in full, before it is: the answer of `vaswani train --dry-run`.

    TrainingPlan       everything that is settled, and what it costs
    stopping_rule      what ends the run
    update_content     what each update holds

The numbers come from `training_cost`; beside them stand those of the paper (`paper_results`).
"""

import inspect
import textwrap
from dataclasses import dataclass
from typing import Any

from vaswani.configuration_vaswani import VaswaniConfig
from vaswani.data_arguments import DataArguments
from vaswani.optimization import inverse_sqrt_rate
from vaswani.paper_results import TABLE_2, TABLE_3
from vaswani.parameter_counts import ParameterCounts, count_parameters
from vaswani.run_settings import ModelArguments
from vaswani.training_arguments import VaswaniTrainingArguments
from vaswani.training_checkpoints import (
    missing_checkpoints,
    planned_checkpoints,
    planned_updates,
)
from vaswani.training_cost import CorpusCounts, Memory, Operations
from vaswani.training_limits import NEVER
from vaswani.wording import counted

_WIDTH = 100
_MARGIN = 15


def stopping_rule(args: VaswaniTrainingArguments) -> str:
    """What ends the run, whichever comes first."""
    ends = []
    if args.max_minutes:
        ends.append(counted(args.max_minutes, "minute"))
    if 0 < args.max_steps < NEVER:
        ends.append(counted(args.max_steps, "update"))
    elif args.num_train_epochs is not None and args.num_train_epochs < NEVER:
        ends.append(counted(args.num_train_epochs, "pass", "passes"))
    if args.early_stopping_patience:
        ends.append(f"{counted(args.early_stopping_patience, 'evaluation')} without a better score")
    return " or ".join(ends)


def update_content(args: VaswaniTrainingArguments) -> str:
    """What each update holds, at most."""
    if args.sentences_per_update is not None:
        return counted(args.sentences_per_update, "sentence pair")
    return f"{args.tokens_per_update:,} source and as many target tokens"


@dataclass(frozen=True)
class TrainingPlan:
    """A run that is settled but not begun.

    Args:
        config: of the model.
        model_arguments: what was asked of the model.
        data_arguments: where the pairs come from.
        args: the trainer's settings, those of the preset filled in.
        search: the `GenerationConfig` that the model will be saved with.
        corpus: size of the training data.
        vocabulary_is_trained: whether the vocabulary's size is final.
    """

    config: VaswaniConfig
    model_arguments: ModelArguments
    data_arguments: DataArguments
    args: VaswaniTrainingArguments
    search: Any
    corpus: CorpusCounts
    vocabulary_is_trained: bool

    @property
    def preset(self) -> str | None:
        """The preset's name, unless the run goes on from a model."""
        return None if self.model_arguments.model else self.model_arguments.preset or "base"

    @property
    def updates(self) -> int | None:
        """Updates of the whole run; `None` if a clock alone ends it."""
        return planned_updates(self.args, self.corpus.updates)

    def text(self) -> str:
        """The plan for a terminal of 100 columns."""
        parameters = count_parameters(self.config)
        sections = {
            "Model": self._model(),
            "Parameters": self._parameters(parameters),
            "Data": self._data(),
            "Updates": self._updates(),
            "Ends": [f"after {stopping_rule(self.args)}", *self._passes()],
            "Learning rate": self._learning_rate(),
            "Operations": self._operations(parameters),
            "Memory": self._memory(parameters),
            "Checkpoints": self._checkpoints(parameters),
            "Search": [self._search()],
            "Settings": self._settings(),
        }
        lines = ["Plan of the run. Nothing is trained or written.", ""]
        for title, entries in sections.items():
            for number, entry in enumerate(entries):
                # Rows of a table keep their blanks; sentences are wrapped.
                label = title if number == 0 else ""
                if "  " in entry:
                    lines.append(label.ljust(_MARGIN) + entry)
                else:
                    lines += textwrap.wrap(
                        entry,
                        _WIDTH,
                        initial_indent=label.ljust(_MARGIN),
                        subsequent_indent=" " * _MARGIN,
                        break_on_hyphens=False,
                    )
        return "\n".join(lines)

    def _model(self) -> list[str]:
        config = self.config
        lines = [f"goes on from {self.model_arguments.model}"]
        if self.preset:
            lines = [f"preset {self.preset}{self._paper_row()}"]
        shapes = []
        for side in ("encoder", "decoder"):
            layers, heads, inner = (
                getattr(config, f"{side}_{name}")
                for name in ("layers", "attention_heads", "ffn_dim")
            )
            d_k, d_v = config.head_sizes(heads)
            shapes.append(
                f"{layers} layers, {heads} heads of d_k {d_k} and d_v {d_v}, d_ff {inner:,}"
            )
        both = [f"encoder and decoder: {shapes[0]}"]
        if shapes[0] != shapes[1]:
            both = [f"encoder: {shapes[0]}", f"decoder: {shapes[1]}"]
        size = f"{config.vocab_size:,}"
        if config.source_vocab_size != config.vocab_size:
            size = f"{config.source_vocab_size:,} (source) and {size} (target)"
        kind = "" if self.vocabulary_is_trained else ", to be trained, at most"
        return [
            *lines,
            f"d_model {config.d_model:,}; {config.position_encoding} positions",
            *both,
            f"dropout {config.dropout:g}, label smoothing {config.label_smoothing:g} "
            f"({config.smoothing_formula})",
            f"vocabulary{kind} {size} entries; {_tables(config)}",
        ]

    def _paper_row(self) -> str:
        row = TABLE_3.get(self.preset or "")
        if row is None:
            return ""
        size = f"{row.millions} M parameters, " if row.millions else ""
        return (
            f" (Table 3: {size}perplexity {row.perplexity:.2f} and BLEU {row.bleu} on newstest2013)"
        )

    def _parameters(self, parameters: ParameterCounts) -> list[str]:
        parts = {
            "embeddings and projection to the vocabulary": parameters.tables,
            "learned positions": parameters.positions,
            "attention": parameters.attention,
            "feed-forward": parameters.feed_forward,
            "layer norms": parameters.norms,
            "output bias": parameters.output_bias,
        }
        rows = {name: count for name, count in parts.items() if count} | {"all": parameters.total}
        return [
            *(f"{name:<44}{count:>13,}" for name, count in rows.items()),
            f"Weight matrices without tables, biases and norms: {parameters.matrices / 1e6:.2f} M.",
        ]

    def _data(self) -> list[str]:
        data, corpus = self.data_arguments, self.corpus
        lines = [f"{' and '.join(data.data)}, {data.source} to {data.target}"]
        how = "counted" if corpus.counted else "declared by the recipe, not counted"
        lines.append(
            f"{counted(corpus.pairs, 'pair')}, {corpus.source_tokens:,} source and "
            f"{corpus.target_tokens:,} target tokens ({how})"
        )
        lines.append(f"pairs with more than {data.max_tokens} tokens on a side are left out")
        if data.validation_data:
            lines.append(f"validation: {' and '.join(data.validation_data)}")
        elif data.validation_split != 0:
            lines.append("validation: pairs held out of the training data")
        if data.test_data:
            lines.append(f"test, of the finished model: {' and '.join(data.test_data)}")
        lines.append("scores: loss, perplexity, BLEU of sacreBLEU (detokenized, 13a) and chrF")
        if self.args.paper_bleu:
            lines.append("and at the end BLEU as the paper reports it (tokenized, compounds split)")
        return lines

    def _updates(self) -> list[str]:
        args, corpus = self.args, self.corpus
        lines = [f"{update_content(args)} each, padding counted"]
        parts = args.world_size * args.gradient_accumulation_steps
        if parts > 1:
            lines.append(
                f"in {parts} micro-batches: {args.world_size} processes x "
                f"{args.gradient_accumulation_steps} accumulation steps"
            )
        if corpus.counted:
            lines.append(
                f"{corpus.updates:,} {'batch is' if corpus.updates == 1 else 'batches are'} one "
                f"pass, {corpus.padding:.1%} of them padding"
            )
        else:
            lines.append(
                f"about {corpus.updates:,} batches are one pass: the longer side's tokens / "
                f"{args.tokens_per_update:,}, without padding"
            )
        return lines

    def _passes(self) -> list[str]:
        if self.updates is None:
            return []
        return [f"passes over the data: {self.updates / self.corpus.updates:.1f}"]

    def _learning_rate(self) -> list[str]:
        args = self.args
        if not args.paper_schedule:
            kind = getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type)
            return [
                f"{args.learning_rate:g} at most, schedule {kind} ({args.optim} of transformers)"
            ]
        assert args.learning_rate_factor is not None
        warmup = args.get_warmup_steps(self.updates or NEVER)

        def rate(update: int) -> float:
            return inverse_sqrt_rate(
                update - 1,
                d_model=self.config.d_model,
                warmup_updates=warmup,
                factor=args.learning_rate_factor or 1.0,
            )

        peak = max(warmup, 1)
        lines = [
            f"{rate(peak):.3g} at most, at update {peak:,}: "
            f"{args.learning_rate_factor:g} x ({self.config.d_model} x {peak:,})^-0.5 (section 5.3)"
        ]
        if self.updates:
            if self.updates < peak:
                lines.append(f"The run ends before the peak, at {rate(self.updates):.3g}.")
            else:
                lines.append(f"{rate(self.updates):.3g} at the last update")
        lines.append(
            f"Adam: beta1 {args.adam_beta1:g}, beta2 {args.adam_beta2:g}, "
            f"epsilon {args.adam_epsilon:g}"
        )
        return lines

    def _operations(self, parameters: ParameterCounts) -> list[str]:
        each = Operations.of(self.config, parameters, self.corpus)
        count, unit = (self.updates, "the run") if self.updates else (1, "an update")
        lines = [
            f"counted: {count * each.total:.2g} for {unit}, forward and backward "
            f"({each.total:.2g} an update)",
            f"{count * each.matrices:.2g}  6 x elements of a token's matrices x tokens",
            f"{count * each.attention:.2g}  6 x layers x h (d_k + d_v) x places x places seen",
        ]
        if not self.corpus.counted:
            lines.append("Declared sizes: as if without padding, all sentences equally long.")
        row = TABLE_2.get(
            (self.preset or "", f"{self.data_arguments.source}-{self.data_arguments.target}")
        )
        if row is not None:
            cost = row.cost
            lines.append(
                f"the paper's (Table 2): {row.operations:.2g} = {cost.hours:g} hours x {cost.gpus} "
                f"GPUs x {cost.rate:.2g} a second; a time, not a count"
            )
        return lines

    def _memory(self, parameters: ParameterCounts) -> list[str]:
        args = self.args
        parts = args.world_size * args.gradient_accumulation_steps
        if args.sentences_per_update is None:
            assert args.tokens_per_update is not None
            places = -(-args.tokens_per_update // parts)
        else:
            places = -(-args.sentences_per_update // parts) * self.data_arguments.max_tokens
        memory = Memory.of(
            self.config,
            parameters,
            source_places=places,
            target_places=places,
        )
        rows: list[tuple[str, int | None, str]] = [
            ("weights", memory.weights, "4 bytes a parameter"),
            ("gradients", memory.gradients, "4 bytes a parameter"),
            ("Adam", memory.adam, "2 moments x 4 bytes a parameter"),
            ("activations", memory.activations, f"of {places:,} source and as many target tokens:"),
            ("", None, "encoder layer 4 x (4 d + 2 h (d_k + d_v) + d_ff) bytes,"),
            ("", None, "decoder layer 4 x (6 d + 3 h (d_k + d_v) + d_ff), and masks"),
            ("logits", memory.logits, "a chunk of scores, and the gradient of the projection"),
        ]
        kind = "float32" if not (args.bf16 or args.fp16) else "as if in float32: 16 bits need less"
        lines = [f"about {memory.total / 1e9:.1f} GB a process on {args.device}, estimated, {kind}"]
        for name, size, formula in rows:
            shown = "" if size is None else f"{size / 1e9:.2f} GB"
            lines.append(f"{name:<12}{shown:>9}  {formula}")
        lines.append(
            "Less with --gradient-accumulation-steps. Temporary buffers and torch come on top, and "
            "attention weights where no fused kernel takes them (d_k unlike d_v on a CPU)."
        )
        return lines

    def _checkpoints(self, parameters: ParameterCounts) -> list[str]:
        args = self.args
        saves = str(getattr(args.save_strategy, "value", args.save_strategy))
        if saves == "no":
            return ["none"]
        size = 12 * parameters.total / 1e9
        when = "at the end of each pass"
        if saves == "steps":
            assert args.save_steps is not None
            every = args.save_steps
            when = f"every {counted(every, 'update')}" if every < NEVER else "at each evaluation"
            if every < NEVER and self.updates:
                when += f"; {planned_checkpoints(args, self.corpus.updates):,} in all"
        lines = [f"{when}; {size:.2f} GB each (weights and Adam's moments)"]
        if args.save_total_limit:
            lines.append(f"kept: {args.save_total_limit}")
        if args.average_last:
            lines.append(f"the last {args.average_last} are averaged at the end (section 6.1)")
            lines += filter(None, [missing_checkpoints(args, self.corpus.updates)])
        elif args.load_best_model_at_end:
            lines.append(f"the best one by {args.metric_for_best_model} becomes the model")
        else:
            lines.append("the last weights become the model")
        evaluates = str(getattr(args.eval_strategy, "value", args.eval_strategy))
        if evaluates == "steps" and args.eval_steps and args.eval_steps < NEVER:
            lines.append(
                f"evaluation every {counted(args.eval_steps, 'update')}, with "
                f"{counted(args.eval_sentences, 'greedy translation')}"
            )
        return lines

    def _search(self) -> str:
        search = self.search
        beams = "greedy"
        if search.num_beams > 1:
            penalty = f"{search.length_penalty:g} ({search.length_penalty_type})"
            beams = f"beam {search.num_beams}, length penalty {penalty}"
        return (
            f"{beams}, at most {search.max_length_a:g} x source + {search.max_length_b} tokens "
            "(section 6.1)"
        )

    def _settings(self) -> list[str]:
        """Every setting that is ours, spelt as in a recipe, one paragraph a group."""
        args = self.args
        own = [base for base in type(args).__mro__ if base.__module__.startswith("vaswani.")]
        shown = {name for base in own for name in inspect.get_annotations(base)}
        shown |= set(args._shown_options)
        if not args.paper_schedule:
            shown |= {"learning_rate", "lr_scheduler_type", "optim"}
        training = {name: getattr(args, name) for name in sorted(shown)}
        if args.output_dir == "trainer_output":
            training["output_dir"] = None
        groups = {
            "model": vars(self.model_arguments) | {"preset": self.preset},
            "data": vars(self.data_arguments),
            "training": training,
        }
        return [
            f"({title}) " + "; ".join(f"{name}: {_spelt(value)}" for name, value in group.items())
            for title, group in groups.items()
        ]


def _tables(config: VaswaniConfig) -> str:
    if config.share_encoder_decoder_embeddings:
        return "one table for source, target and projection"
    if config.tie_word_embeddings:
        return "one table for the source, one for target and projection"
    return "a table each for source, target and projection"


def _spelt(value: Any) -> str:
    value = getattr(value, "value", value)
    if value is None or value == []:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, int | float) and value >= NEVER:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)
